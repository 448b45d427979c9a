"""Tasks, keys and weights on their way to nodes: stored once, whole where they arrive, unreadable where they pass."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hc_ray.blind.sealing import vault
from hc_ray.blind.sealing.canaries import planted_tokens
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ActorError, EngineError, ModelError, SandboxError
from hc_ray.engines import weights_shelf
from hc_ray.engines.catalogue import ResolvedModel, resolve
from hc_ray.machine import sealed_box
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew import distribution
from hc_ray_actors.driver.crew.distribution import Deliveries, furnish, give_keys
from hc_ray_actors.engine import Engine
from hc_ray_actors.role_models import role_model
from hc_ray_actors.sandboxes import Sandboxes
from hc_ray_actors.verifiers import Verifiers
from tests.fakes.recording import files_of
from tests.fakes.sweeps import REPOSITORY
from tests.fakes.tasks import make_task

GGUF = b"GGUF" + bytes(range(256))


class Counting(Cluster):
    def __init__(self):
        super().__init__()
        self.stored = []

    def put(self, value):
        self.stored.append(value)
        return value


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "head"))
    for number in range(6):
        make_task(tmp_path / "tasks", f"add{number}", instruction=f"Write `add.py`, which adds {number}.\n")
    return vault.seal(tmp_path / "tasks", tmp_path / "head/public", tmp_path / "head/sealed")


def _node(tmp_path, name):
    roots = [str(tmp_path / name / part) for part in ("public", "sealed")]
    return Sandboxes("bwrap", roots[0], 1), Verifiers("bwrap", *roots, 1)


async def _give(parcels, *nodes):
    await asyncio.gather(*(parcels.to_sandboxes(sandboxes) for sandboxes, _ in nodes),
                         *(parcels.to_verifiers(verifiers) for _, verifiers in nodes))  # fmt: skip


async def test_tasks_are_stored_once_for_all_nodes_and_arrive_whole_and_what_is_sealed_is_stored_unreadable(
    dataset, tmp_path
):
    cluster = Counting()
    parcels = Deliveries(cluster, tmp_path / "head/public", tmp_path / "head/sealed", dataset.tasks)
    await _give(parcels, _node(tmp_path, "a"), _node(tmp_path, "b"))
    assert len(cluster.stored) == 12  # 6 tasks, 2 parts
    for node in ("a", "b"):
        assert files_of(tmp_path / node) == files_of(tmp_path / "head")
    tokens = planted_tokens(tmp_path / "head/sealed")
    assert len(tokens) == 6 and not any(token.encode() in one for token in tokens for one in cluster.stored)
    await _give(parcels, _node(tmp_path, "a"), _node(tmp_path, "joined later"))
    assert len(cluster.stored) == 12 and files_of(tmp_path / "joined later") == files_of(tmp_path / "head")
    later = Counting()
    await _give(Deliveries(later, tmp_path / "head/public", tmp_path / "head/sealed", dataset.tasks),
                _node(tmp_path, "a"))  # fmt: skip
    assert later.stored == []


async def test_what_once_failed_to_be_stored_is_made_anew_for_the_next_node(dataset, tmp_path):
    class Full(Counting):
        room = False

        def put(self, value):
            if not self.room:
                raise OSError("no room")
            return super().put(value)

    cluster = Full()
    parcels = Deliveries(cluster, tmp_path / "head/public", tmp_path / "head/sealed", dataset.tasks)
    sandboxes, _ = _node(tmp_path, "a")
    with pytest.raises(OSError, match="no room"):
        await parcels.to_sandboxes(sandboxes)
    cluster.room = True
    await parcels.to_sandboxes(sandboxes)
    assert files_of(tmp_path / "a/public") == files_of(tmp_path / "head/public") and len(cluster.stored) == 6


async def test_a_node_with_the_canaries_of_another_head_is_given_these(dataset, tmp_path):
    other = vault.seal(tmp_path / "tasks", tmp_path / "b/public", tmp_path / "b/sealed")
    assert other.sealed_digests == dataset.sealed_digests
    assert not planted_tokens(tmp_path / "b/sealed").keys() & planted_tokens(tmp_path / "head/sealed").keys()
    parcels = Deliveries(Counting(), tmp_path / "head/public", tmp_path / "head/sealed", dataset.tasks)
    await _give(parcels, _node(tmp_path, "b"))
    assert files_of(tmp_path / "b") == files_of(tmp_path / "head")


async def test_an_actor_is_sent_a_few_tasks_at_once_and_a_disk_that_takes_none_ends_it(dataset, tmp_path):
    now, most, full = set(), [], asyncio.Event()

    class Slow:
        async def missing(self, digests):
            return digests

        async def install(self, digest, tar):
            now.add(digest)
            most.append(len(now))
            if len(now) == distribution.WINDOW:
                full.set()
            await asyncio.wait_for(full.wait(), 30)  # so that the pace of packing does not decide how many meet
            await asyncio.sleep(0.01)
            now.discard(digest)

    parcels = Deliveries(Cluster(), tmp_path / "head/public", tmp_path / "head/sealed", dataset.tasks)
    await parcels.to_sandboxes(Slow())
    assert len(most) == 6 and max(most) == distribution.WINDOW
    (tmp_path / "full").write_text("no folder")
    with pytest.raises(SandboxError, match=r"cannot store task [0-9a-f]{12}: .*full"):
        await parcels.to_sandboxes(_node(tmp_path, "full")[0])


async def test_what_is_sealed_opens_in_its_process_alone_and_only_unchanged_under_its_name(dataset, tmp_path):
    sealed = sealed_box.seal(sealed_box.public_half(), b"secret")
    assert sealed_box.opened(sealed) == b"secret" and b"secret" not in sealed
    other = subprocess.check_output([sys.executable, "-c", _OPENS, sealed.hex()], text=True)
    locked = sealed_box.lock(key := sealed_box.new_key(), b"tests", "a task")
    assert other.strip() == "ActorError" and sealed_box.unlock(key, locked, "a task") == b"tests"
    for broken in (sealed[:-1] + bytes([sealed[-1] ^ 1]), b""):
        with pytest.raises(ActorError, match="sealed for another one, or was changed"):
            sealed_box.opened(broken)
    for wrong in ((sealed_box.new_key(), locked, "a task"), (key, locked, "another"), (key, locked[:9], "a task")):
        with pytest.raises(ActorError, match="was changed on its way"):
            sealed_box.unlock(*wrong)


_OPENS = """
import sys
from hc_ray.machine import sealed_box
try:
    sealed_box.opened(bytes.fromhex(sys.argv[1]))
except Exception as fault:
    print(type(fault).__name__)
"""


async def test_an_actor_has_the_drivers_key_for_its_engine_and_none_that_its_node_happens_to_have(monkeypatch):
    engine, sent = EngineConfig(base_url="http://127.0.0.1:9/v1", api_key_env="MY_MODEL"), []

    class Elsewhere(sealed_box.Addressee):
        async def take_keys(self, sealed):
            monkeypatch.setenv("MY_MODEL", "of this node")
            sent.append(sealed)
            await super().take_keys(sealed)

    monkeypatch.setenv("MY_MODEL", "of the driver")
    await give_keys(Elsewhere(), [engine, engine])
    assert os.environ["MY_MODEL"] == "of the driver" and len(sent) == 1 and b"driver" not in sent[0]
    monkeypatch.delenv("MY_MODEL")
    await give_keys(Elsewhere(), [engine])
    assert "MY_MODEL" not in os.environ
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the store")
    await give_keys(Elsewhere(), [EngineConfig()], stores=True)
    assert sent[2:] and os.environ["AWS_SECRET_ACCESS_KEY"] == "of the store"
    await give_keys(None, [EngineConfig()])  # nothing to send: not even asked


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """An engine of weights that lie on the head alone, whose disk is a folder; this process is another node then."""
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "head"))
    weights = tmp_path / "m.gguf"
    weights.write_bytes(GGUF)
    engine, _, _ = role_model(EngineConfig(model=str(weights)))
    monkeypatch.setattr(distribution, "PIECE", 100)
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "node"))
    known = ResolvedModel(name="m", path=weights, digest="", profile={})
    monkeypatch.setattr(distribution, "model_of", lambda engine: known)
    monkeypatch.setattr(weights_shelf, "resolve", _not_here)
    return engine


def _not_here(model, sha256):
    raise ModelError(f"{model}: no such file")


async def test_weights_that_a_node_lacks_are_sent_once_in_pieces_and_served_from_its_shelf(planned, tmp_path):
    cluster = Counting()
    await asyncio.gather(*(furnish(cluster, Engine(planned), planned) for _ in range(2)))
    assert [len(piece) for piece in cluster.stored] == [100, 100, 60]
    [kept] = (tmp_path / "node/models/by-digest" / planned.sha256).glob("*.gguf")
    assert kept.name == "m.gguf" and hashlib.sha256(kept.read_bytes()).hexdigest() == planned.sha256
    assert resolve("/nowhere/m.gguf", planned.sha256).path == kept


async def test_other_weights_than_planned_and_a_disk_without_room_are_refused_in_one_line(planned, monkeypatch):
    Path(planned.model).write_bytes(GGUF[::-1])
    with pytest.raises(ModelError, match=r"m\.gguf has changed since this sweep was planned"):
        await furnish(Cluster(), Engine(planned), planned)
    full = type("Usage", (), {"free": 7})
    monkeypatch.setattr(weights_shelf.shutil, "disk_usage", lambda path: full)
    with pytest.raises(
        EngineError, match=r"node \S+ cannot store the weights: they need 0.0 GiB, .*by-digest.* 0.0 GiB free"
    ):
        await furnish(Cluster(), Engine(planned), planned)


SCRIPT = """
import asyncio, glob, itertools, json, os, sys
from pathlib import Path
from hc_ray.blind.sealing import vault
from hc_ray.blind.sealing.canaries import planted_tokens
from hc_ray.domain.config import EngineConfig
from hc_ray.machine.sealed_box import Addressee
from hc_ray_actors.ray_cluster import RayCluster
from hc_ray_actors.driver.crew.distribution import Deliveries, give_keys
from hc_ray_actors.verifiers import Verifiers
from tests.fakes.processes import family, read

class Asking(Addressee):
    async def key(self):
        return len(os.environ["MY_MODEL"])

head, node = Path(os.environ["HC_RAY_HOME"]), Path(sys.argv[1], "node")
dataset = vault.seal(Path(sys.argv[1], "tasks"), head / "public", head / "sealed")
cluster = RayCluster()
os.environ["MY_MODEL"] = key = sys.argv[2]
canary = next(iter(planted_tokens(head / "sealed")))
told = {"plain": "test_adds_in_the_open", "canary": canary, "test": "test_adds_negative", "key": key}

async def deliver():
    verifiers = cluster.spawn(Verifiers, "bwrap", str(node / "public"), str(node / "sealed"), 1)
    asking = cluster.spawn(Asking)
    await Deliveries(cluster, head / "public", head / "sealed", dataset.tasks).to_verifiers(verifiers)
    await give_keys(asking, [EngineConfig(base_url="http://127.0.0.1:9/v1", api_key_env="MY_MODEL")])
    return await asking.key()

def memory():
    # Of any other Ray on the machine too, whose processes may end meanwhile.
    seen = set()
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(path).startswith("/dev/shm/plasma"):
                if (file := os.stat(path)[1:3]) not in seen:  # inode and device
                    yield Path(path).read_bytes()
                    seen.add(file)
        except OSError:
            pass

def written():
    for path in cluster._folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()

def held():
    found = dict.fromkeys(told, 0)
    for data in itertools.chain(memory(), written()):
        for name, text in told.items():
            found[name] += text.encode() in data
    return found

try:
    plain = cluster.put(told["plain"].encode())
    length, stored = asyncio.run(deliver()), held()
    fill = [cluster.put(os.urandom(60 << 20)) for _ in range(5)]  # more than there is memory: the rest is spilled
    spilled = held()
    files = {str(path.relative_to(node)): path.read_bytes().hex() for path in node.rglob("*") if path.is_file()}
    same = all((head / path).read_bytes().hex() == text for path, text in files.items())
    beside = " ".join(read(pid, "cmdline") for pid in family(os.getpid()))
    found = {"key": length, "stored": stored, "spilled": spilled, "files": len(files), "same": same, "beside": beside}
    print(json.dumps(found))
finally:
    cluster.close()
"""


@pytest.fixture(scope="module")
def of_ray(tmp_path_factory):
    """What a Ray of one process's own held of a task's tests and of a key, and the command lines of its processes."""
    folder, key = tmp_path_factory.mktemp("ray"), "sk-0123456789-the-key-of-nobody"
    make_task(folder / "tasks")
    words = [sys.executable, "-c", SCRIPT, str(folder), key]
    environment = {**os.environ, "HC_RAY_HOME": str(folder / "head")}
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "sent": key}


@pytest.mark.ray
@pytest.mark.slow
def test_no_test_canary_or_key_stands_in_rays_memory_spill_files_or_logs(of_ray):
    assert of_ray["key"] == len(of_ray["sent"]) and of_ray["same"] and of_ray["files"] >= 8
    for when in ("stored", "spilled"):
        found = dict(of_ray[when])
        assert found.pop("plain") > 0 and set(found.values()) == {0}, of_ray


@pytest.mark.ray
@pytest.mark.slow
def test_a_ray_of_ones_own_has_no_process_that_makes_it_grow_reads_its_logs_or_shows_it(of_ray):
    assert "raylet" in of_ray["beside"] and "gcs_server" in of_ray["beside"]
    assert not re.search(r"/(log_)?monitor\.py|/dashboard\.py", of_ray["beside"])
