"""Finds the address of the running Ray cluster, and probes it before use."""

import os
import socket
import tempfile
import time
from pathlib import Path

from hc_ray.domain.errors import PlatformError
from hc_ray_actors.ray_token import own_token, own_token_path

CURRENT_CLUSTER = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
"""The file in which ``ray start`` records the address of the cluster that it started or joined."""
CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 20.0
"""Timeouts in seconds: to accept a connection, which the kernel does, and to answer, for which a busy head needs
long."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
"""HTTP/2 frame types. A gRPC server's first frame is SETTINGS."""
_QUESTION = "/ray.rpc.NodeInfoGcsService/GetClusterId"
"""The first call of every Ray client; a cluster with another token answers with the reason."""
_WRONG_TOKEN, _END = b"InvalidAuthToken", b"grpc-status"


def running_cluster(address: str | None = None) -> str | None:
    """The address of a responding cluster: ``address``, else RAY_ADDRESS, else the one that this user runs or has
    joined on this machine. It is probed first, since ``ray.init`` hangs for minutes on a stale address or a silent
    port.

    None if there is none, and for ``local``: a Ray of this machine alone. As for Ray, ``auto`` means RAY_ADDRESS or
    this machine's cluster. Raises ``PlatformError`` if that one, or a named address, does not respond."""
    named = (os.environ.get("RAY_ADDRESS") or address) if address in {None, "auto"} else address
    if named == "local":
        return None
    # Ray would also find a cluster that a program started for itself (``ray.init``); it ends with that program, so do
    # not join it.
    current = _current()
    if not named:  # join another user's cluster only if named: its processes would get this user's tasks and keys
        own = current and CURRENT_CLUSTER.stat().st_uid == os.geteuid()
        return current if own and why_silent(current) is None else None
    if named == "auto" and not current:
        raise PlatformError(
            "--address auto: no Ray cluster is running on this machine; start one (ray start --head), or give host:port"
        )
    named = current if named == "auto" else named
    if named.startswith("ray://"):
        raise PlatformError(f"{named}: Ray Client addresses are not supported; use the head's host:6379 or a Ray Job")
    if (fault := why_silent(named)) is not None:
        raise PlatformError(
            f"no Ray cluster responds at {named} ({fault}); start it, or omit --address and unset RAY_ADDRESS"
        )
    if not current and not _of_own_address(named):
        raise PlatformError(
            f"this machine is not a node of the Ray cluster at {named}: run hc-ray on the head (ray exec --tmux"
            " cluster.yaml 'hc-ray sweep'), or as a Ray Job"
        )
    return named


def _of_own_address(address: str) -> bool:
    """Whether ``host:port`` is on this machine; a driver needs the head, or a Ray that has joined it, on its
    machine."""
    try:
        family, *_, (host, *_) = socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None)[0]
        with socket.create_server((str(host), 0), family=family):
            return True
    except OSError:
        return False


def _current() -> str:
    """The address that ``ray start`` last recorded on this machine, head or node; empty if there is none."""
    return CURRENT_CLUSTER.read_text().strip() if CURRENT_CLUSTER.is_file() else ""


def why_silent(address: str) -> str | None:
    """Why no Ray cluster responds at ``host:port``; None if one does. Raises ``PlatformError`` if a cluster refuses
    this process's token: Ray itself would retry for a minute without saying why."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return "not an address of the form HOST:PORT"
    heard, within = b"", CONNECT_SECONDS
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=within) as wire:
            if os.environ.get("RAY_USE_TLS", "0") not in {"", "0"}:
                return None  # the greeting would have to be encrypted with the cluster's own certificates
            until, within = time.monotonic() + ANSWER_SECONDS, ANSWER_SECONDS
            wire.sendall(_greeting(address))
            while len(heard) < 9 or (heard[3] == _SETTINGS and _END not in heard):
                wire.settimeout(max(0.01, until - time.monotonic()))
                part = wire.recv(1 << 16)
                if not part:
                    break
                heard += part
    except TimeoutError:
        if not heard:
            return f"no answer within {within:g} s"
    except (OSError, OverflowError) as fault:
        if not heard:
            return str(fault)
    if len(heard) < 9:
        return "the server there closed the connection"
    if heard[3] != _SETTINGS:
        return "the server there is not a Ray cluster"
    if _WRONG_TOKEN in heard:
        raise PlatformError(
            f"the Ray cluster at {address} refuses this machine's token; copy the head's to {own_token_path()}, or, "
            "to use a Ray of this machine alone, pass --address local"
        )
    return None


def _greeting(address: str) -> bytes:
    """The bytes of a gRPC call: the HTTP/2 preface, empty settings, the headers and an empty message."""
    try:
        token = own_token()
    except PlatformError:
        token = ""  # the cluster may not need one
    headers = {
        ":method": "POST", ":scheme": "http", ":path": _QUESTION, ":authority": address, "te": "trailers",
        "content-type": "application/grpc", "authorization": f"Bearer {token}",
    }  # fmt: skip
    written = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    call = _frame(_HEADERS, 4, 1, written) + _frame(_DATA, 1, 1, bytes(5))
    return _PREFACE + _frame(_SETTINGS, 0, 0, b"") + call


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _text(text: str) -> bytes:
    """An HPACK string (RFC 7541, 5.1 and 5.2), uncompressed."""
    raw, rest = text.encode(), len(text.encode()) - 127
    length = bytes([len(raw)]) if rest < 0 else b"\x7f"
    while rest >= 0:
        length += bytes([rest % 128 | (128 if rest >= 128 else 0)])
        rest = rest // 128 if rest >= 128 else -1
    return length + raw
