import concurrent.futures
import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from hc_ray.domain.errors import ActorError, PlatformError
from hc_ray_actors import address
from hc_ray_actors.cluster import SANDBOX, Cluster, Member, wait_until_free
from hc_ray_actors.driver.nodes import BackendsOfNodes, SeenNode
from hc_ray_actors.ray_cluster import Remote
from hc_ray_actors.ray_token import token_file

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What every gRPC server answers a greeting with."""
ANSWER = b"\0\0\x0f\1\5\0\0\0\1@\x0bgrpc-status\x010"
REFUSAL = (
    b"\0\0}\1\5\0\0\0\1\x88\0\x0bgrpc-status\x0216\0\x0cgrpc-message>InvalidAuthToken: Authentication token is missing"
)
"""What Ray 2.60 answers to the right token and to another."""


@pytest.fixture
def listener():
    """A port that says what it was given to say to whoever comes, and nothing by itself."""
    answers, held = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    for answer in answers:
                        held[-1].sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", answers
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def current(tmp_path, monkeypatch):
    """The file in which ``ray start`` notes the address of the cluster that it started or joined."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(address, "CURRENT_CLUSTER", tmp_path / "ray_current_cluster")
    return tmp_path / "ray_current_cluster"


@pytest.fixture
def there(listener):
    listener[1].append(SETTINGS + ANSWER)
    return listener[0]


def test_the_token_is_made_once_and_only_its_owner_can_read_it_or_enter_its_folder(home):
    path = token_file()
    first, folder = path.read_text(), path.parent
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    assert len(first) >= 32 and token_file().read_text() == first
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and [one.name for one in folder.iterdir()] == ["ray_token"]


def test_processes_that_make_the_token_at_once_get_the_same_one(home):
    script = "from hc_ray_actors.ray_token import token_file; print(token_file().read_text())"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = [pool.submit(subprocess.check_output, [sys.executable, "-c", script], text=True) for _ in range(4)]
    assert len({one.result() for one in made}) == 1


def linked(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("spoil", [
    lambda path: path.chmod(0o644), lambda path: path.chmod(0o640), lambda path: path.chmod(0o606),
    lambda path: path.write_text(""), linked,
], ids=["read by all", "by its group", "written by others", "empty", "a link"])  # fmt: skip
def test_a_token_that_others_could_read_or_that_is_none_is_refused_with_the_remedy(home, spoil):
    path = token_file()
    secret = path.read_text()
    spoil(path)
    with pytest.raises(PlatformError, match=r"has no token that only this user can read .*; remove it") as refused:
        token_file()
    assert secret not in str(refused.value)
    path.unlink()
    assert stat.S_IMODE(token_file().stat().st_mode) == 0o600


def test_an_address_where_nobody_or_something_else_answers_or_of_a_ray_client_is_refused_with_the_reason(listener):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    web, answers = listener
    answers.append(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    for given, says in {f"127.0.0.1:{port}": "no Ray cluster responds", web: "is not a Ray cluster",
                        "ray://head:10001": "Ray Job"}.items():  # fmt: skip
        with pytest.raises(PlatformError, match=says):
            address.running_cluster(given)


def test_a_stale_current_cluster_file_means_that_none_is_up_and_auto_starts_none_and_says_so(current):
    with pytest.raises(PlatformError, match="address auto: no Ray cluster is running on this machine"):
        address.running_cluster("auto")
    current.write_text("127.0.0.1:1")
    assert address.running_cluster() is None
    with pytest.raises(PlatformError, match=r"no Ray cluster responds at 127\.0\.0\.1:1"):
        address.running_cluster("auto")


def test_auto_is_the_cluster_of_this_machine_or_what_RAY_ADDRESS_says_as_for_ray_and_local_is_none_of_them(
    there, current, monkeypatch
):
    current.write_text(f"{there}\n")
    assert address.running_cluster("auto") == there
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert address.running_cluster() == there
    current.write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_ADDRESS", there)
    assert address.running_cluster("auto") == there
    assert address.running_cluster() == there and os.environ["RAY_ADDRESS"] == there
    current.write_text(there)
    assert address.running_cluster("local") is None
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert address.running_cluster() is None


def test_the_ray_of_another_user_of_this_machine_is_joined_only_by_name(there, current, monkeypatch):
    current.write_text(there)
    assert address.running_cluster() == there
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert address.running_cluster() is None and address.running_cluster("auto") == there


def test_a_cluster_with_another_token_is_refused_at_once_in_one_line_that_says_what_to_do(
    listener, current, monkeypatch, home
):
    there, answers = listener
    answers.append(SETTINGS + REFUSAL)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setattr(address, "ANSWER_SECONDS", 60)  # nobody waits for it
    current.write_text(there)
    started = time.monotonic()
    for given in (there, "auto", None):
        with pytest.raises(
            PlatformError, match=rf"copy the head's to {home}/keys/ray_token, or.*--address local"
        ) as refused:
            address.running_cluster(given)
        assert "\n" not in str(refused.value)
    assert time.monotonic() - started < address.ANSWER_SECONDS


def test_a_port_that_accepts_and_never_answers_is_given_up(listener, current, monkeypatch):
    dumb, _ = listener
    monkeypatch.setattr(address, "ANSWER_SECONDS", 0.2)
    with pytest.raises(PlatformError, match=r"no answer within 0\.2 s"):
        address.running_cluster(dumb)
    current.write_text(dumb)
    assert address.running_cluster() is None


def test_a_head_that_accepts_at_once_and_is_too_busy_to_answer_soon_is_no_stale_address(current, monkeypatch):
    monkeypatch.setattr(address, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as busy:

        def serve():
            with busy.accept()[0] as wire:
                wire.recv(1 << 16)
                time.sleep(3 * address.CONNECT_SECONDS)
                wire.sendall(SETTINGS + ANSWER)
                wire.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        current.write_text(f"127.0.0.1:{busy.getsockname()[1]}")
        assert address.running_cluster() == current.read_text()


async def test_a_process_that_the_network_hides_for_a_moment_is_not_told_to_have_died():
    from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError

    async def told(fault: RayError) -> str:
        def remote() -> None:
            raise fault

        with pytest.raises(ActorError) as caught:
            await Remote(SimpleNamespace(grade=SimpleNamespace(remote=remote))).grade()
        return str(caught.value)

    hidden, dead = await told(ActorUnavailableError("RPC error", None)), await told(ActorDiedError())
    assert hidden.startswith("the process that serves grade cannot be reached (ActorUnavailableError: ")
    assert dead.startswith("the process that serves grade died (ActorDiedError: ")
    full = OSError(28, "No space left on device", "/srv/work")
    trace = "Traceback (most recent call last):\n" + "  File x, line 1\n" * 40 + f"OSError: {full}"
    unmade = await told(ActorDiedError(RayTaskError("Sandboxes.__init__", trace, full, actor_id=b"a" * 16)))
    assert unmade == f"the process that serves grade did not start (OSError: {full})"


ENDS = """
import atexit, sys, threading, types
from hc_ray.cli import app
from hc_ray_actors import ray_cluster
ray_cluster.LEAVE_SECONDS = 0.1
hangs = ray_cluster.RayCluster.__new__(ray_cluster.RayCluster)
hangs._folder, hangs._ray = None, types.SimpleNamespace(shutdown=threading.Event().wait)
atexit.register(hangs._ray.shutdown)
app.run = lambda words: print("told") or hangs.close() or 130
app.main()
"""


def test_a_command_ends_by_its_own_code_though_the_head_that_it_leaves_hangs():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "told\n"), done.stderr


def test_a_backend_works_where_one_of_several_machines_of_one_name_has_it():
    twins = [
        SeenNode(id=str(number), name="localhost", address=f"10.0.0.{number}", slots={SANDBOX: 1}, faults=faults)
        for number, faults in enumerate(({"docker": "no daemon"}, {}, {"docker": "no daemon", "bwrap": "not there"}))
    ]
    assert BackendsOfNodes(twins).fault("docker") is None
    assert BackendsOfNodes(twins[::2]).fault("docker") == "localhost: no daemon; localhost: no daemon"


def test_slots_of_a_node_that_is_lost_are_not_waited_for():
    class Shrinking(Cluster):
        looks = 0

        def members(self) -> list[Member]:
            self.looks += 1
            return [Member(id=node, name=node, slots={}) for node in ("near", "far")[: 2 if self.looks < 3 else 1]]

        def free(self, resource: str) -> dict[str, float]:
            return {"near": 2, "far": 0}

    cluster, began = Shrinking(), time.monotonic()
    wait_until_free(cluster, {(SANDBOX, "near"): 2, (SANDBOX, "far"): 2})
    assert cluster.looks == 3 and time.monotonic() - began < 5
