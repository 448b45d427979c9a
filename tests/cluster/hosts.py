"""Hosts of a network, made of namespaces on this machine. Each has its own processes, addresses, /tmp, homes, data
root, host name and ssh server. Nothing of the machine's network is touched: the bridge is in a namespace of its own."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.runner_build import ensure_runner
from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY

ROOT = Path("/var/tmp/hc-ray-hosts")
"""Where hosts lie. All processes outside of them that they need have this path in their command line."""
DATA = "/srv"
"""The data root of each host's root, a folder of the host's own."""
USER, UID = "hc", 2077
"""A normal user that every host has."""
BRIDGE = """ip link add name hosts type bridge; ip address add 10.77.0.254/24 dev hosts; ip link set dev hosts up
echo up; exec sleep infinity"""
WHEELS = ROOT / "wheels"
SSHD = f"""HostKey {ROOT}/keys/host
AuthorizedKeysFile {ROOT}/keys/id.pub
StrictModes no
PasswordAuthentication no
SetEnv PIP_NO_INDEX=1 PIP_FIND_LINKS={WHEELS}
"""
CLIENT = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"


def _held(*command: object) -> "tuple[subprocess.Popen[str], str]":
    """A namespace's process and its first line of output; it dies with this process, however that ends."""
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", *map(str, command)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    if process.stdout and (line := process.stdout.readline().strip()):
        return process, line
    raise RuntimeError(f"{words} ended with {process.wait()}")


class Host:
    """One machine. Its ``folder`` is at the same path inside and outside."""

    def __init__(self, number: int, bridge: int, *, user_namespaces: bool = True) -> None:
        self.name, self.address = f"host{number}", f"10.77.0.{number}"
        self.folder = ROOT / self.name
        self.environment: dict[str, str] = {}
        self._boot = [number, bridge, "pivot" if user_namespaces else "chroot"]
        self._process: subprocess.Popen[str] | None = None
        self._pid = 0

    def power(self, *, on: bool) -> None:
        """Off is a power cut: what its disk has stays, all processes are gone when this returns."""
        if on:
            words = [Path(__file__).with_name("boot.sh"), self.folder, self.name, *self._boot]
            kept = dict.fromkeys((REPOSITORY, Path(sys.base_prefix), ROOT / "keys", WHEELS))
            self._process, outside = _held("--mount", "--uts", "--ipc", "--net", "--pid", "sh", *words, *kept)
            self._pid = int(outside)
        elif self._process is not None:
            # Without its link no kernel takes leave of the others for whoever is killed.
            with contextlib.suppress(ProcessLookupError, subprocess.CalledProcessError):
                self._link("down")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._process.wait(60)  # it waits for the first process, and that for all others
            self._process = None

    def entered(self, command: str, user: str = "root") -> list[str]:
        """The words that run a shell command inside, in the checkout."""
        home, uid, own = ("/root", 0, {"HC_RAY_HOME": DATA}) if user == "root" else (f"/home/{user}", UID, {})
        path = f"{REPOSITORY}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        given = {"HOME": home, "USER": user, "PATH": path, "LANG": "C.UTF-8", **own, **self.environment}
        into = ["nsenter", f"--target={self._pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        # Whoever ends nsenter ends the command.
        become = ["setpriv", "--pdeathsig=TERM", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        variables = [f"{name}={value}" for name, value in given.items()]
        return [*into, f"--wdns={REPOSITORY}", *become, "env", "-i", *variables, "bash", "-c", command]

    def run(self, command: str, user: str = "root", *, timeout: float = 120) -> Any:
        return ran(*self.entered(command, user), timeout=timeout, stdin=subprocess.DEVNULL)

    def start(self, command: str, user: str = "root") -> "subprocess.Popen[str]":
        """Begin a command; the host's end is its end."""
        words, both = self.entered(command, user), {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True, **both)

    def _link(self, state: str) -> None:
        words = ["ip", "link", "set", "dev", self.name, state]
        ran("nsenter", f"--target={self._boot[1]}", "--net", *words).check_returncode()

    def unplug(self, seconds: float) -> None:
        self._link("down")
        again = threading.Timer(seconds, self._link, ["up"])
        again.daemon = True
        again.start()

    def pids(self) -> dict[int, str]:
        """Its processes, apart from ssh's server: none when it is off, since its kernel ends them with the first."""
        if self._process is None:
            return {}
        lines = self.run("exec ps -eo pid=,args=").stdout.splitlines()
        found = {int(line.split()[0]): line.split(maxsplit=1)[1] for line in lines}
        return {pid: told for pid, told in found.items() if pid != 1 and told != "ps -eo pid=,args="}


@contextlib.contextmanager
def network(count: int, *, without_user_namespaces: int | None = None) -> Iterator[list[Host]]:
    """Hosts that are up and reach each other, by name too; one network at a time, whatever ended the last one."""
    with ROOT.with_suffix(".lock").open("w") as lock, contextlib.ExitStack() as ends:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_leftovers()
        ends.callback(remove_leftovers)
        (ROOT / "keys").mkdir(parents=True)
        WHEELS.mkdir()
        for key in ("host", "id"):
            ran("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ROOT / "keys" / key).check_returncode()
        bridge, _ = _held("--net", "sh", "-ec", BRIDGE, ROOT)
        ends.callback(bridge.wait)
        ends.callback(bridge.kill)
        inside = int(Path(f"/proc/{bridge.pid}/task/{bridge.pid}/children").read_text())
        numbers = range(1, count + 1)
        hosts = [Host(number, inside, user_namespaces=number - 1 != without_user_namespaces) for number in numbers]
        for host in hosts:
            _furnish(host.folder, "".join(f"{one.address} {one.name}\n" for one in hosts))
            ends.callback(host.power, on=False)
            host.power(on=True)
        yield hosts


def _furnish(folder: Path, peers: str) -> None:
    """A disk: names and users in /etc, homes with the key, and what an installation leaves (weights and runner)."""
    etc = folder / "etc"
    etc.mkdir(parents=True)
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{peers}")
    (etc / "resolv.conf").write_text("")
    (etc / "group").write_text(Path("/etc/group").read_text() + f"{USER}:x:{UID}:\n")
    (etc / "passwd").write_text(Path("/etc/passwd").read_text() + f"{USER}:*:{UID}:{UID}::/home/{USER}:/bin/bash\n")
    (etc / "sshd_config").write_text(SSHD)
    for home, data, owner in (("root", DATA[1:], 0), (f"home/{USER}", f"home/{USER}/.local/share/hc-ray", UID)):
        ssh, kept = folder / home / ".ssh", folder / data
        ssh.mkdir(parents=True)
        (ssh / "config").write_text(CLIENT)
        shutil.copy(ROOT / "keys/id", ssh / "id_ed25519")
        (kept / "runner").mkdir(parents=True)
        ran("cp", "-a", "--link", ensure_runner(), kept / "runner").check_returncode()
        ran("cp", "-a", data_root() / "models", kept).check_returncode()
        # Folders and keys: files of the runner are links to the machine's own, which keep their owner.
        which = ["(", "-type", "d", "-o", "-path", "*/.ssh/*", "-o", "-path", "*/models/*", ")"]
        ran("find", folder / home, *which, "-exec", "chown", f"{owner}:{owner}", "{}", "+").check_returncode()


def remove_leftovers() -> None:
    """End what an earlier network left, by the path in its command lines, and its files."""
    until = time.monotonic() + 30
    while left := ran("pgrep", "-f", f"^unshare --fork .*{ROOT}").stdout.split():
        ran("kill", "-KILL", *left)  # the kernel ends each one's namespace with it
        if time.monotonic() > until:
            raise RuntimeError(f"processes of hosts do not end: {left}")
        time.sleep(0.05)
    shutil.rmtree(ROOT, ignore_errors=True)
