"""Two sweeps on one machine, both with secrets in their environment. One is killed; what it left is removed, what is
not its own stays, and the other one finishes."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hc_ray.machine.cleanup import OWNER_FILE, OWNER_VARIABLE
from hc_ray.machine.owner import machine
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.figures import tell
from tests.fakes.look_alikes import DEAD, LookAlikes
from tests.fakes.processes import alive, born, family, holding, listening, named, ran, runs_inside, shown, wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import begun, results, told
from tests.fakes.tasks import SOLVE_SH, TEST_PY, TEST_SH, TOML, make_task

pytestmark = pytest.mark.docker
START_SECONDS = 240.0
"""Ray's own start on a busy machine, three times over."""
ENDS_SECONDS = 15.0
"""How long after its owner's death a container may still run: it is at once, on a machine that is not busy."""
SECRET_NAMES = ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "MY_DB_PASSWORD",
                "PROXY_PASSWORD", "TASK_TOKEN")  # fmt: skip
KEY_NAME = "HC_TEST_MODEL"
"""What the config calls the variable of the engine's key: a name that does not look like a secret's."""
DUMP = ("#!/bin/bash\n{ env; for one in /proc/[0-9]*; do tr '\\0' '\\n' < $one/environ; cat $one/cmdline; done; }"
        " > /app/seen.txt 2> /dev/null\n")  # fmt: skip
"""The reference solution writes down everything that a sandbox can see of processes and their environments."""
ASKS = '\n[verifier.env]\nGIVEN = "${TASK_TOKEN}"\n'
PATIENT = TOML.replace("[agent]\ntimeout_sec = 60.0", "[agent]\ntimeout_sec = 900.0") + ASKS
SLOW = TOML.replace("[verifier]\ntimeout_sec = 60.0", "[verifier]\ntimeout_sec = 900.0") + ASKS
GIVEN_SH = TEST_SH.replace("cd /app\n", "[ ${#GIVEN} = 32 ] || exit\ncd /app\n")
"""Tests that pass with the secret that they ask for alone."""


class Engine:
    """Right answers over HTTP, none before ``go``: the sweep that asks lives as long as the test wants."""

    def __init__(self, key: str) -> None:
        self.go = threading.Event()
        self.server = EngineServer(self.answer, key=key)

    def answer(self, body: dict[str, Any]) -> str:
        if "def add" not in prompt_of(body) and "add(" not in prompt_of(body):
            return "red"  # what is asked when the server is looked at
        self.go.wait(START_SECONDS)
        return "```python\ndef add(a, b):\n    return a + b\n```\n"


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What two sweeps left, did and lost, looked at while it happened."""
    import docker

    root = tmp_path_factory.mktemp("left")
    api = docker.APIClient(version="auto")
    canaries = {name: secrets.token_hex(16) for name in (*SECRET_NAMES, KEY_NAME)}
    engine = Engine(canaries[KEY_NAME])
    mark = uuid.uuid4().hex
    with data_home() as home, engine.server as server:
        env = {**canaries, "HC_RAY_HOME": str(home)}
        slow, solution = {"test.sh": "#!/bin/bash\nsleep 900\n"}, {"solve.sh": DUMP + SOLVE_SH}
        text = f"Write the file `add.py` with a function `add(a, b)` that returns the sum. {mark}\n"
        make_task(root / "killed", "slow", toml=SLOW, instruction=f"Slowly. {text}", tests=slow, solution=solution)
        passes = {"test.sh": GIVEN_SH, "test_outputs.py": TEST_PY}
        make_task(root / "other", "add", toml=PATIENT, instruction=text, tests=passes, solution=solution)
        proxy = {"httpProxy": f"http://me:{canaries['PROXY_PASSWORD']}@proxy.invalid:3128"}
        (root / "docker").mkdir()
        (root / "docker" / "config.json").write_text(json.dumps({"proxies": {"default": proxy}}))
        it = SimpleNamespace(root=root, home=home, api=api, env=env, canaries=canaries, engine=engine, looks=None)
        words = ["sweep", "-p", root / "killed", "-o", root / "killed-out" / "out", "-a", "oracle"]
        dead = Path(tempfile.mkdtemp(prefix="hc-ray-engine-"))
        (dead / OWNER_FILE).write_text(f"{DEAD}@{machine()}")
        stray = subprocess.Popen(["sleep", "900"], env={"PATH": os.defpath, OWNER_VARIABLE: f"{DEAD}@{machine()}"})
        it.killed = it.other = begun(
            *words, "--sandbox", "docker", log=root / "killed.log", **env, DOCKER_CONFIG=str(root / "docker")
        )
        try:
            _until_it_grades(it)
            it.start_removed = not dead.exists() and stray.poll() == -signal.SIGKILL
            words = ["sweep", "-p", root / "other", "-o", root / "out" / "out", "-a", "oracle", "-a", "raw"]
            words += ["--sandbox", "bwrap", "--base-url", server.base_url, "--model", "fake"]
            words += ["--set", "engine.context_tokens=2048"]
            it.other = begun(*words, "--api-key-env", KEY_NAME, log=root / "other.log", **env)
            _until_it_asks(it)
            _watch_both(it)
            it.looks = LookAlikes(api, it.image)
            _kill_one(it)
            engine.go.set()
            it.code = it.other.wait(START_SECONDS)
            it.other_log = (root / "other.log").read_text()
            _look_after(it)
            yield it
        finally:
            engine.go.set()
            for process in (it.killed, it.other, stray):
                process.kill()
                process.wait()
            if it.looks is not None:
                it.looks.remove()
            told("clean", **env)
            for image in api.images(filters={"label": "hc-ray.task"}):
                if image["Labels"]["hc-ray.task"] == getattr(it, "digest", None):
                    api.remove_image(image["RepoTags"][0])


def _until_it_grades(it: SimpleNamespace) -> None:
    sweep_file = it.root / "killed-out" / "out" / "sweep.json"

    def grading() -> Any:
        assert it.killed.poll() is None, (it.root / "killed.log").read_text()
        if not sweep_file.is_file():
            return None
        it.digest = json.loads(sweep_file.read_text())["tasks"][0]["digest"]
        it.image = f"hc-ray/task:{it.digest[:16]}"
        try:
            found = it.api.containers(filters={"ancestor": it.image})
        except Exception:  # the image is not built yet
            return None
        return found if any(runs_inside(it.api, one["Id"], "sleep 900") for one in found) else None

    it.containers = [one["Id"] for one in wait(grading, START_SECONDS, "the sweep to be killed grades")]
    it.inspected = json.dumps([it.api.inspect_container(one) for one in it.containers])
    graded = [one for one in it.containers if runs_inside(it.api, one, "sleep 900")]
    it.dumped = [b"".join(it.api.get_archive(one, "/app/seen.txt")[0]) for one in graded]


def _until_it_asks(it: SimpleNamespace) -> None:
    def asking() -> bool:
        assert it.other.poll() is None, (it.root / "other.log").read_text()
        return any("sum" in json.dumps(body) for body in it.engine.server.bodies())

    wait(asking, START_SECONDS, "the other sweep asks its engine")
    oracle = it.root / "out" / "out" / "trials"
    wait(lambda: list(oracle.glob("*/artifacts/submission.tar")), START_SECONDS, "the other sweep's oracle is graded")


def _watch_both(it: SimpleNamespace) -> None:
    """What two sweeps show while they run."""
    it.killed_family, it.other_family = family(it.killed.pid), family(it.other.pid)
    it.births = {pid: born(pid) for pid in it.killed_family | it.other_family}
    it.sockets = listening(it.killed_family | it.other_family)
    it.folders = {name: _ray_folder(pids) for name, pids in (("killed", it.killed_family), ("other", it.other_family))}
    it.in_logs = [line for folder in it.folders.values() for line in holding(folder, it.canaries)]
    gcs = next(port for _, port, name in listening(it.other_family) if name.startswith("gcs"))
    it.clients = {how: _ask_ray(it, gcs, how) for how in ("disabled", "wrong", "right")}


def _ray_folder(pids: set[int]) -> Path:
    """The folder of a sweep's Ray, as its processes name it."""
    for pid in pids:
        for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            if "/hc-ray-ray-" in word:
                before, _, after = word.partition("/hc-ray-ray-")
                return Path("/" + before.partition("/")[2], f"hc-ray-ray-{after.partition('/')[0]}")
    raise AssertionError("no process of Ray names its folder")


def _ask_ray(it: SimpleNamespace, port: int, how: str) -> str:
    """What Ray's own client is told at the head's port."""
    token = it.home / "keys" / "ray_token"
    if how == "wrong":
        token = it.root / "wrong"
        token.write_text(secrets.token_hex(32))
    script = "import sys; from ray._raylet import GcsClient as Client; "
    script += "print(len(Client(sys.argv[1]).get_all_node_info(timeout=20)))"
    mode = "disabled" if how == "disabled" else "token"
    env = {**os.environ, "RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN_PATH": str(token)}
    done = ran(sys.executable, "-c", script, f"127.0.0.1:{port}", env=env)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def _kill_one(it: SimpleNamespace) -> None:
    """SIGKILL to one sweep's driver and to an actor of the other; then ``clean``, twice."""
    os.kill(it.killed.pid, signal.SIGKILL)
    began = time.monotonic()
    it.killed.wait()
    wait(
        lambda: not any(_exists(it.api, one, running=True) for one in it.containers), ENDS_SECONDS, "its containers end"
    )
    it.container_seconds = time.monotonic() - began
    it.left_processes = _left(it, it.killed_family)
    it.found = told("clean", "--dry-run", **it.env)
    it.folder_lasts = it.folders["killed"].exists()
    it.after_dry = [_exists(it.api, one) for one in it.containers]
    it.removed = told("clean", **it.env)
    it.processes_after = _left(it, it.killed_family)
    it.containers_after = [one for one in it.containers if _exists(it.api, one)]
    it.other_alive = alive(it.other.pid) and all(
        alive(pid) for name in ("gcs_server", "raylet", "ray::Trials", "ray::Sandboxes", "ray::Verifiers")
        for pid in named(it.other_family, name)
    )  # fmt: skip
    it.again = told("clean", **it.env)
    it.untouched = it.looks.untouched()
    actor = named(it.other_family, "ray::Sandboxes")
    it.actors_killed = len(actor)
    for pid in actor:
        os.kill(pid, signal.SIGKILL)


def _left(it: SimpleNamespace, pids: set[int]) -> list[str]:
    """Which of a family live on. A number that another process has by now is not one of them."""
    return [shown(pid) for pid in sorted(pids) if alive(pid) and born(pid) == it.births[pid]]


def _exists(api: Any, container: str, *, running: bool = False) -> bool:
    return any(one["Id"] == container for one in api.containers(all=not running))


def _look_after(it: SimpleNamespace) -> None:
    with contextlib.suppress(AssertionError):
        wait(lambda: not _left(it, it.other_family), 10, "the other sweep's processes end")
    it.other_left = _left(it, it.other_family)
    it.secret_places = [*holding(it.root / "out", it.canaries), *holding(it.root / "killed-out", it.canaries),
                        *holding(it.home, it.canaries), *it.in_logs,
                        *(f"{name} in inspect" for name, value in it.canaries.items() if value in it.inspected),
                        *(f"{name} on the terminal" for name, value in it.canaries.items()
                          if value in it.other_log)]  # fmt: skip
    handed_in = [path.read_bytes() for path in it.root.glob("out/out/trials/*/artifacts/submission.tar")]
    it.dumped += [data for data in handed_in if b"app/seen.txt" in data]
    it.secret_places += [f"{name} in a sandbox" for name, value in it.canaries.items()
                         if any(value.encode() in data for data in it.dumped)]  # fmt: skip


def test_after_sigkill_of_a_driver_its_containers_end_by_themselves(seen):
    assert seen.containers and seen.container_seconds < ENDS_SECONDS


def test_a_start_removes_what_a_dead_owner_left(seen):
    assert seen.start_removed


def test_clean_removes_everything_that_the_dead_sweep_left(seen):
    assert seen.processes_after == [] and seen.containers_after == [], (seen.processes_after, seen.removed)
    assert not seen.folders["killed"].exists()
    # Whoever else starts a sandbox or a Ray on this machine removes them, too: each is named by clean, or was before.
    named = [*seen.found["removed"], *seen.removed["removed"]]
    assert all(any(one[:12] in line for line in named) for one in seen.containers)
    assert str(seen.folders["killed"]) in named or not seen.folder_lasts


def test_a_dry_run_says_what_clean_would_remove_and_removes_nothing(seen):
    assert seen.found["dry_run"] and all(seen.after_dry)
    lasting = [line for line in seen.removed["removed"] if not line.startswith("process")]
    assert set(lasting) <= set(seen.found["removed"])


def test_a_second_clean_finds_nothing_of_it(seen):
    again = seen.again["removed"]
    assert not any(line in seen.removed["removed"] for line in again)
    assert not any(one[:12] in line for one in seen.containers for line in again)


def test_clean_touches_nothing_that_merely_looks_alike(seen):
    assert all(seen.untouched), seen.untouched


def test_the_other_sweep_lives_on_loses_nothing_though_an_actor_is_killed_and_leaves_nothing(seen):
    assert seen.other_alive and seen.actors_killed == 1
    assert seen.code == 0, seen.other_log
    trials = results(seen.root / "out" / "out").values()
    assert sorted(one["agent_info"]["name"] for one in trials) == ["oracle", "raw"]
    assert all(one["verifier_result"]["rewards"]["reward"] == 1.0 for one in trials)
    assert seen.other_left == [] and not seen.folders["other"].exists()
    assert not any((seen.home / "sandboxes").glob("*/*"))
    tell("left_behind", {"kills": {"driver": 1, "actor": seen.actors_killed}, "containers": len(seen.containers),
                         "seconds_until_containers_ended": round(seen.container_seconds, 2),
                         "processes_after_kill": len(seen.left_processes),
                         "removed_by_clean": len(seen.removed["removed"]),
                         "leftovers_after_clean": len(seen.processes_after) + len(seen.containers_after),
                         "look_alikes": len(seen.untouched), "look_alikes_touched": seen.untouched.count(False),
                         "trials_lost_by_the_other_sweep": 0})  # fmt: skip


def test_no_secret_of_the_environment_is_anywhere_outside_of_it(seen):
    """But in the hidden tests that ask for one: they pass. Nor does a container know of its client's proxy."""
    # References looked around in Docker and in bubblewrap, and saw an environment.
    assert len(seen.dumped) == 2 and all(b"PATH=" in data and b"proxy.invalid" not in data for data in seen.dumped)
    assert '"Image"' in seen.inspected and "proxy.invalid" not in seen.inspected
    assert (seen.root / "out" / "mlflow.db").is_file() and seen.secret_places == []


def test_a_planted_secret_would_be_found(seen, tmp_path):
    (tmp_path / "log").write_text(f"key {seen.canaries[KEY_NAME]} refused")
    assert holding(tmp_path, seen.canaries) == [f"{KEY_NAME} in {tmp_path}/log"]


def test_everything_listens_on_loopback_only(seen):
    assert {name for _, _, name in seen.sockets} >= {"gcs_server", "raylet"}
    assert {address for address, _, _ in seen.sockets} <= {"127.0.0.1", "::1"}


def test_a_client_without_the_token_is_refused_by_ray(seen):
    assert seen.clients["right"].isdigit(), seen.clients
    assert "InvalidAuthToken" in seen.clients["disabled"] and "InvalidAuthToken" in seen.clients["wrong"]
    beyond = sum(address not in ("127.0.0.1", "::1") for address, _, _ in seen.sockets)
    tell("secrets", {"planted": len(seen.canaries), "found": len(seen.secret_places), "sockets": len(seen.sockets),
                     "sockets_beyond_loopback": beyond, "clients_without_token": 2,
                     "clients_without_token_let_in": 0})  # fmt: skip
