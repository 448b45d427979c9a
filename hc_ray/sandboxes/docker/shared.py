"""What shared grading needs of Docker: containers in which ``inside/grading/shared.py`` can run out of the reach of the
candidate's own root, how that is started, and which of some paths differ from the image.

Hiding the tests in a mount namespace of their own takes CAP_SYS_ADMIN, so these containers have it, and every command
of a candidate gives it up before it starts (``hc_exec``); since nothing here gains privileges by executing anything, it
is gone for good. What starts with it in a container that may be hostile touches nothing of the candidate's on its way:
it starts from the runner's mount at the root of the file system (a mount point cannot be renamed, nor can what lies
above this one), by the runner's own loader, which reads no ``/etc/ld.so.preload``, with a locale and a time zone that
name no file."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hc_ray.domain.ports import Changes
from hc_ray.domain.runner_paths import RUNNER_ROOT
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.difference import Baseline, Budget, read_tree
from hc_ray.sandboxes.docker.lineage import Touch, ancestors
from hc_ray.sandboxes.docker.stream import heard, take_payloads

_LOADER = (
    *(f"{RUNNER_ROOT}/ld.so", "--inhibit-cache", "--inhibit-rpath", f"{RUNNER_ROOT}/bin/python3"),
    *("--library-path", f"{RUNNER_ROOT}/lib"),
)
ADDED = ("SYS_ADMIN", "SETPCAP", "BLOCK_SUSPEND")
"""Beyond what containers of ours have: to mount, to give capabilities up for good, and the mark of who graded here."""
UNREAD = {"LC_ALL": "C", "TZ": ":/proc/0/none", "GLIBC_TUNABLES": "", "LD_LIBRARY_PATH": "", "LD_PRELOAD": "",
          "LD_AUDIT": ""}  # fmt: skip
"""The environment of the exec, over the image's own: nothing in it names a file that the C library would open."""
SCRATCH = "rw,nosuid,nodev,mode=755,size=16m"
_COMPARED = 64 << 20
"""Bytes of the files that are compared with the image's."""

_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_CLONE_NEWNS = 0x20000
_FORBIDDEN = (
    "_sysctl acct add_key afs_syscall bpf chroot clock_adjtime clock_adjtime64 clock_settime clock_settime64 "
    "create_module delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick get_kernel_syms "
    "get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load "
    "kexec_load keyctl listmount lookup_dcookie mbind migrate_pages mount_setattr move_mount move_pages "
    "name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr perf_event_open pivot_root "
    "process_vm_readv process_vm_writev query_module quotactl quotactl_fd reboot request_key set_mempolicy "
    "set_mempolicy_home_node setdomainname sethostname setns settimeofday statmount stime swapoff swapon sysfs syslog "
    "umount umount2 uselib userfaultfd ustat vhangup vm86 vm86old"
)
"""What Docker's own profile forbids a container without further capabilities; beyond that io_uring, and reading another
process's memory."""


def profile() -> str:
    """The system calls of a container for shared grading, in Docker's format. Docker's own profile opens a container
    that has CAP_SYS_ADMIN to far more than mounts. Here ``mount`` is left to the kernel's judgement, which asks for
    that capability; and of namespaces, only a mount namespace can be had at all, so that nobody gets the capability in
    a user namespace of his own."""
    refused: dict[str, Any] = {"action": "SCMP_ACT_ERRNO"}
    rules = [
        {**refused, "names": _FORBIDDEN.split()},
        {**refused, "names": ["unshare"], "args": [{"index": 0, "value": _CLONE_NEWNS, "op": "SCMP_CMP_NE"}]},
        # The flags of clone3 lie in memory that a filter cannot read: the C library then takes clone.
        {**refused, "names": ["clone3"], "errnoRet": 38},
        *({**refused, "names": ["clone"],
           "args": [{"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}]}
          for bit in _NAMESPACES),
    ]  # fmt: skip
    machines = [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "archMap": machines, "syscalls": rules})


def sealed(command: Sequence[str]) -> list[str]:
    """A command of the machinery's, started out of the reach of the candidate's own root."""
    return [*_LOADER, *command]


def options(host: dict[str, Any], config: dict[str, Any], *, apparmor: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both halves of what makes a container, fit for shared grading. ``/tests`` and ``/logs`` are mount points, so that
    whoever lives in there can neither move them nor put something else in their place. ``apparmor``: the daemon's own
    profile forbids every mount."""
    unconfined = ["apparmor=unconfined"] if apparmor else []
    host = {
        **host,
        "security_opt": [*host["security_opt"], f"seccomp={profile()}", *unconfined],
        "cap_add": list(ADDED),
        "cap_drop": [name for name in host["cap_drop"] if name not in ADDED],
        "tmpfs": {"/tests": SCRATCH, "/logs": SCRATCH},
    }
    return host, {**config, "entrypoint": sealed(config["entrypoint"]), "environment": UNREAD}


def listen(wire: socket.socket, asked: bytes, *, timeout: float, limit: int, stopped: Callable[[], bool]) -> bytes:
    """Send what is asked and read what Docker frames until the end or the deadline: the standard output."""
    said, pending, until = bytearray(), bytearray(), time.monotonic() + timeout
    with contextlib.suppress(ValueError):
        for data in heard(wire, asked, lambda: until, stopped):
            pending += data
            for kind, payload in take_payloads(pending):
                if kind == 1:
                    said += payload[: max(0, limit - len(said))]
    return bytes(said)


def changes(
    daemon: Daemon, container: str, baseline: Baseline, touched: Mapping[str, Touch], among: Callable[[str], bool]
) -> Changes:
    """What lies elsewise than in the image, of the paths for which ``among`` holds. Names alone are looked at where
    the image has nothing, so that an installed package costs nothing; raises ``ValueError`` where what is to be
    compared is larger than any honest change."""
    added: list[str] = []
    changed: list[str] = []
    deleted: list[str] = []
    whole = {path for path, touch in touched.items() if touch == "whole"}
    for path, touch in sorted(touched.items()):
        if not among(path):
            continue
        if touch == "added" and not any(above in whole for above in ancestors(path)):
            added.append(path)
            continue
        now, before = daemon.stat(container, path), baseline.stat(path)
        if now is None:
            if before is not None:
                deleted.append(path)
        elif before is None:
            added.append(path)
        elif now.kind == "folder" == before.kind:
            if now.mode != before.mode:
                changed.append(path)
        elif now != before:
            changed.append(path)
        else:
            held = read_tree(daemon, container, path, Budget(_COMPARED), whole=False) or {}
            if held != baseline.tree(path, Budget(_COMPARED), whole=False):
                changed.append(path)
    return Changes(added=tuple(added), changed=tuple(changed), deleted=tuple(deleted))
