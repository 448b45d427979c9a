"""Keeps a sandbox's network away from its cluster's addresses. Runs before anything of a candidate does, in a container
of its own that shares the sandbox's network namespace and alone may change it.

Each address becomes one of the sandbox itself, by a ``local`` route on its interface: what is sent there comes back.
Routes that refuse (``unreachable``) would not do: where the table has no way, Linux takes a destination of a socket
that is bound to an interface, or that asks for no routing, to be on the link (``ip_route_output_key_hash_rcu``). The
gateway stays the next hop of what goes to others, since that is looked up by ARP; the sandbox answers the gateway's own
ARP requests because it takes packets from "its own" addresses (sysctl ``accept_local``)."""

import fcntl
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator

_NEWROUTE, _REQUEST_ACK_CREATE_REPLACE = 24, 0x1 | 0x4 | 0x400 | 0x100
_TABLE_LOCAL, _STATIC, _SCOPE_HOST, _TYPE_LOCAL = 255, 4, 254, 2
_TO, _DEVICE = 1, 4
_SIOCGIFFLAGS, _UP, _LOOPBACK = 0x8913, 1, 8
_LINK_LOCAL = "fe80::/10"
"""Where the host is found on any link that has IPv6."""


def main() -> None:
    """``argv``: addresses and networks. Beyond them, whatever is a gateway of the sandbox. Ends with an exception where
    one of them stays reachable."""
    links = [(index, name) for index, name in socket.if_nameindex() if not _idle(name)]
    for index, name in links:
        for text in {*sys.argv[1:], *_gateways()}:
            away = ipaddress.ip_network(text, strict=False)
            if away.version == 4 or _has_ipv6(name):
                _take(away, index)


def _idle(name: str) -> bool:
    """Loopback, and what the kernel puts into every namespace and nobody inside can switch on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (flags,) = struct.unpack_from("=H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, name.encode().ljust(40, b"\0")), 16)
    return bool(flags & _LOOPBACK) or not flags & _UP


def _has_ipv6(name: str) -> bool:
    return any(line.split()[-1] == name for line in _lines("/proc/net/if_inet6"))


def _gateways() -> Iterator[str]:
    for line in _lines("/proc/net/route")[1:]:
        packed = struct.pack("=I", int(line.split()[2], 16))
        if any(packed):
            yield socket.inet_ntoa(packed)
    for line in _lines("/proc/net/ipv6_route"):
        packed = bytes.fromhex(line.split()[4])
        if any(packed):
            yield socket.inet_ntop(socket.AF_INET6, packed)
    yield _LINK_LOCAL


def _lines(path: str) -> list[str]:
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [line for line in file if line.strip()]


def _take(away: "ipaddress.IPv4Network | ipaddress.IPv6Network", link: int) -> None:
    family = socket.AF_INET if away.version == 4 else socket.AF_INET6
    to = away.network_address.packed
    route = struct.pack("=BBBBBBBBI", family, away.prefixlen, 0, 0, _TABLE_LOCAL, _STATIC,
                        _SCOPE_HOST if away.version == 4 else 0, _TYPE_LOCAL, 0)  # fmt: skip
    route += struct.pack("=HH", 4 + len(to), _TO) + to + struct.pack("=HHI", 8, _DEVICE, link)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(route), _NEWROUTE, _REQUEST_ACK_CREATE_REPLACE, 1, 0) + route)
        failed = -struct.unpack_from("=i", kernel.recv(4096), 16)[0]
    if failed:
        raise OSError(failed, f"{away}: {os.strerror(failed)}")
