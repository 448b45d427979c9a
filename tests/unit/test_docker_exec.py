import asyncio
import json
import socket
import ssl
import struct
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.domain.filetree import Member
from hc_ray.sandboxes.docker.lineage import put_changes
from hc_ray.sandboxes.docker.place import Ground
from hc_ray.sandboxes.docker.stream import Conversation
from hc_ray.sandboxes.docker.values import PathFacts, path_facts, remedy, split_tag


def helper(channel, data):
    return struct.pack(">B3xI", channel, len(data)) + data


def docker(data, kind=1):
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(st.integers(1, 50))
def test_frames_are_read_however_they_are_cut(size):
    frames = [helper(0, b'{"started": true}'), helper(1, b"out"), helper(2, b"err"), helper(1, b"x" * 200)]
    stream = docker(b"".join(frames) + helper(0, json.dumps({"exit": 3}).encode()))
    conversation = Conversation(10)
    for start in range(0, len(stream), size):
        conversation.feed(stream[start : start + size])
    assert conversation.started and conversation.over and conversation.report == {"exit": 3}
    assert [bytes(stream) for stream in conversation.streams.values()] == [b"outxxxxxxx", b"err"]


@given(st.lists(st.binary(max_size=40)), st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=20))))
def test_whatever_a_program_writes_into_the_stream_nothing_raises(raw, frames):
    conversation = Conversation(10)
    conversation.feed(docker(helper(0, b"[" * 100_000)))
    for channel, data in frames:
        conversation.feed(docker(helper(channel, data)))
    for data in raw:
        conversation.feed(data)
    assert all(len(stream) <= 10 for stream in conversation.streams.values())


def test_what_docker_says_in_the_helpers_place_is_kept_as_a_complaint():
    conversation = Conversation(10)
    conversation.feed(docker(b"exec failed: no such file", kind=2))
    assert conversation.complaint == b"exec failed: no such file" and not conversation.started
    conversation.feed(b"OCI runtime exec failed")
    assert conversation.garbled and conversation.over


def test_what_was_put_into_an_untouched_container_is_known_but_for_links_and_changes_of_kind():
    image = {"/app": "folder", "/app/a": "file", "/bin": "link"}

    def stat(path):
        return PathFacts(kind=image[path], mode=0o755, size=1) if path in image else None

    def told(*members):
        return put_changes(members, stat)

    assert told() == {}
    assert told(Member("/app/a", "file"), Member("/app/n/m", "file"), Member("/app", "folder")) == {
        "/app/a": 0, "/app/n": 1, "/app/n/m": 1, "/app": 0,
    }  # fmt: skip
    for odd in (("/bin/x", "file"), ("/app/a/x", "file"), ("/app", "file"), ("/app/a", "folder"), ("/n", "link")):
        assert told(Member("/app/b", "file"), Member(*odd)) is None


async def test_a_place_answers_whatever_commands_are_still_waited_for(tmp_path):
    ground, ended = Ground(tmp_path, owner="o"), threading.Event()
    running = [asyncio.ensure_future(ground.call(ended.wait)) for _ in range(300)]
    try:
        assert await asyncio.wait_for(ground.call(len, "four"), 20) == 4
    finally:
        ended.set()
    await asyncio.gather(*running)


def encrypted():
    """Both ends of a connection in TLS, without a certificate."""
    ends, made = socket.socketpair(), {}

    def wrap(server):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.maximum_version = False, ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_NONE
        context.set_ciphers("AECDH:@SECLEVEL=0")
        made[server] = context.wrap_socket(ends[server], server_side=server)

    other = threading.Thread(target=wrap, args=(True,))
    other.start()
    wrap(False)
    other.join()
    return made[False], made[True]


@pytest.mark.parametrize("pair", [socket.socketpair, encrypted], ids=["plain", "encrypted"])
def test_an_owner_is_heard_by_all_that_listen_past_one_that_is_frozen_and_one_that_has_ended(tmp_path, pair):
    ground, wires = Ground(tmp_path, owner="o"), {name: pair() for name in ("frozen", "ended", "heard")}
    frozen = wires["frozen"][0]
    frozen.settimeout(0.1)
    with suppress(OSError):
        while True:
            frozen.send(b"x" * 1000)
    frozen.settimeout(None)
    ground.daemon.hold = lambda container: wires[container][0]
    for container in wires:
        ground.hold(container)
    wires["ended"][1].close()
    ground.renew()
    ground.renew()
    assert wires["heard"][1].recv(1) == b"." and set(ground._held) == {"frozen", "heard"}
    ground.let_all_go()
    for _, end in wires.values():
        end.close()


def test_modes_of_go_ports_of_registries_and_kinds_of_silence_are_read():
    rows = path_facts({"mode": 0o755 | 1 << 31, "size": 4096}).model_dump()
    assert rows == {"kind": "folder", "mode": 0o755, "size": 4096}
    assert path_facts({"mode": 0o777 | 1 << 27, "size": 3}).kind == "link"
    assert path_facts({"mode": 0o755 | 1 << 23, "size": 3}).mode == 0o4755
    assert path_facts({"mode": 0o777 | 1 << 31 | 1 << 20, "size": 3}).mode == 0o1777
    assert path_facts({"mode": 0o644 | 1 << 25, "size": 0}).kind == "other"
    assert split_tag("host:5000/a/b") == ("host:5000/a/b", "", "")
    assert split_tag("host:5000/a/b:1.2") == ("host:5000/a/b", ":", "1.2")
    assert "docker group" in remedy("PermissionError(13, 'Permission denied')", 3)
    assert "start" in remedy("FileNotFoundError(2, 'No such file or directory')", 3)
    assert "start" in remedy("ConnectionRefusedError(111, 'Connection refused')", 3)
    assert "silent" in remedy("Read timed out.", 3)
