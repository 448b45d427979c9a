"""Servers that hc-ray starts: how they are told what they need, what is said of one that does not come up, and that
nothing of them outlives whoever started them."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.engines import catalogue, server
from hc_ray.engines.server import PORTS, launched, told
from hc_ray_actors import engine
from hc_ray_actors.engine import Engine
from hc_ray_actors.engine_places import located
from hc_ray_actors.role_models import role_model
from tests.fakes.launched import COMMAND, listed
from tests.fakes.processes import alive, family, program, wait

FAKE = COMMAND.split()[1]
KEY = "of-this-sweep-alone"


def started(folder, command=COMMAND, *, key=None, **settings):
    config = EngineConfig(command=command, model="m", context_tokens=4096, **{"start_sec": 30, **settings})
    return launched(config, "/weights/m", host="127.0.0.2", key=key, folder=folder)


PRESETS = {
    "vllm": "serve /weights/m --served-model-name m --max-model-len 4096 -tp 2 --generation-config vllm",
    "sglang": "serve --model-path /weights/m --served-model-name m --context-length 4096 --tp-size 2",
    "llama-server": "-hf /weights/m --alias m --parallel 4 --ctx-size 16384",
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_known_server_gets_its_options_before_the_users_own_and_its_key_on_no_command_line(
    name, tmp_path, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", "/of/another/python")
    monkeypatch.setenv("MY_SECRET_TOKEN", "s" * 20)
    server = program(tmp_path / name, f'exec {sys.executable} {FAKE} "$@"')
    command = f"env OMP_NUM_THREADS=3 {server} --own 'a {{b}}'"
    one = started(tmp_path, command, key=KEY, gpus=2, parallel=4)
    try:
        url = one.start()
        assert one.start() == url and os.getpgid(one.pid) == one.pid != os.getpgid(0)
        facts = listed(url, KEY)
        with pytest.raises(urllib.request.HTTPError, match="401"):
            listed(url, "a-guess")
        for pid in family(one.pid):
            assert KEY not in Path(f"/proc/{pid}/cmdline").read_text()
    finally:
        one.stop()
        one.stop()
    words, at = facts["words"], int(url.split(":")[2].removesuffix("/v1"))
    assert set(PRESETS[name].split()) <= set(words) and words[-2:] == ["--own", "a {b}"]
    assert ["--host", "127.0.0.2", "--port", str(at)] == words[(i := words.index("--host")) : i + 4] and at in PORTS
    variables = {"vllm": "VLLM_API_KEY", "llama-server": "LLAMA_API_KEY"}
    assert facts["environment"] == {"OMP_NUM_THREADS": "3", variables.get(name, "HC_RAY_ENGINE_KEY"): KEY}
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("sglang.yaml"))


def test_a_server_that_is_killed_takes_its_workers_along_and_comes_up_again(tmp_path):
    one = started(tmp_path, f"{COMMAND} --model {{model}}", key=KEY)
    try:
        facts, group = listed(one.start(), KEY), one.pid
        assert facts["words"][-2:] == ["--model", "/weights/m"] and facts["environment"]["HC_RAY_ENGINE_KEY"] == KEY
        processes = wait(lambda: len(found := family(group)) == 3 and found, 5, "launcher, server and worker")
        (child,) = [pid for pid in processes if FAKE in Path(f"/proc/{pid}/cmdline").read_text() and pid != group]
        os.kill(child, signal.SIGKILL)
        wait(lambda: not any(map(alive, processes)), 5, "the end of all of them")
        assert not one.alive() and "signal 9" in (tmp_path / "server.log").read_text()
        assert one.start() and one.alive() and one.pid != group
        processes = family(one.pid)
        (child,) = map(int, Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split())
        os.kill(one.pid, signal.SIGKILL)  # the launcher, as Ray kills a worker's children: nobody sees to the others
        wait(lambda: not one.alive() and not alive(child), 5, "the launcher's end and the server's")
    finally:
        one.stop()
    wait(lambda: not any(map(alive, processes)), 5, "the end of all of them")


TRACE = "Traceback:|ValueError: no room for the cache: 3 GiB|RuntimeError: it failed. See root cause above.|bye"


@pytest.mark.parametrize(("command", "settings", "error", "says"), [
    ("/no/such/program --host {host} --port {port}", {}, ConfigError, "no program /no/such/program on "),
    (f"{COMMAND} --say '{TRACE}'", {}, EngineError, r"could not start: ValueError: no room for the cache: 3 GiB \(log"),
    (f"{COMMAND} --after 60", {"start_sec": 1}, EngineError, r"not ready within 1 s.*engine\.start_sec"),
])  # fmt: skip
def test_what_does_not_come_up_is_told_in_one_line_and_leaves_a_log_and_no_process(
    command, settings, error, says, tmp_path
):
    one = started(tmp_path, command, **settings)
    with pytest.raises(error, match=says) as caught:
        one.start()
    assert "\n" not in str(caught.value) and one.pid is None and family(os.getpid()) == {os.getpid()}
    assert error is ConfigError or (tmp_path / "server.log").is_file()


def test_a_start_that_is_stopped_ends_with_its_server_and_begins_no_other(tmp_path):
    ready = tmp_path / "ready"
    (tmp_path / "loads.py").write_text(
        "import pathlib, signal, socket, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "listener = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
        f"pathlib.Path({str(ready)!r}).touch()\nwhile True:\n    listener.accept()\n"
    )
    one = started(tmp_path, f"{sys.executable} {tmp_path}/loads.py {{host}} {{port}}", start_sec=15)
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(one.start)
        wait(ready.exists, 10, "the server listens")
        one.stop()
        with pytest.raises(EngineError, match="could not start"):
            starting.result(timeout=5)
    assert one.pid is None


@pytest.mark.parametrize(
    ("taken", "error"), [(1, None), (9, "other programs took all 3 ports that were tried; .*in use")]
)
def test_a_port_that_was_taken_meanwhile_is_left_to_whoever_has_it(taken, error, tmp_path, monkeypatch):
    choose, chosen = server.free_port, []
    with socket.create_server(("127.0.0.2", 0)) as holder:

        def choice(host):
            chosen.append(host)
            return holder.getsockname()[1] if len(chosen) <= taken else choose(host)

        monkeypatch.setattr(server, "free_port", choice)
        monkeypatch.setattr(server, "_healthy", lambda url, *_, **more: str(holder.getsockname()[1]) not in url)
        one = started(tmp_path)
        if error:
            with pytest.raises(EngineError, match=error):
                one.start()
        else:
            assert one.start()
        one.stop()
    assert len(chosen) == min(taken + 1, 3)


LESS = "; use a smaller model or lower engine.context_tokens"


@pytest.mark.parametrize(("log", "says"), [
    (["load: failed to load model", "main: exiting"], "load: failed to load model"),
    (["a", "  b  c "], "b c"), ([], "its log is empty"),
    (["a", "python3: No module named b", "the server ended with exit code 1"],
     "python3: No module named b; the server ended with exit code 1"),
    (["(core) ERROR torch.OutOfMemoryError: CUDA out of memory", "x"], f"OutOfMemoryError: CUDA out of memory{LESS}"),
    (["malloc: insufficient memory (3 MB)", "RuntimeError: no"], f"malloc: insufficient memory (3 MB){LESS}"),
])  # fmt: skip
def test_of_a_log_the_line_that_names_the_cause_is_told(log, says):
    assert told(log) == says


async def test_an_engine_of_ones_own_is_planned_started_probed_and_ended(home, monkeypatch):
    monkeypatch.setattr(engine, "derived_key", lambda name: KEY)
    monkeypatch.setattr(engine, "own_address", lambda: "127.0.0.2")
    config, profile, digest = role_model(EngineConfig(command=COMMAND, model="m", context_tokens=4096))
    assert profile.name == "capable" and digest != role_model(config.model_copy(update={"model": "n"}))[2]
    actor = Engine(located(config))
    endpoint = await actor.start()
    try:
        assert endpoint.model == "m" and endpoint.capabilities["context"] == 4096 and await actor.alive()
        assert "HC_RAY_ENGINE_KEY" in listed(endpoint.base_urls[0], KEY)["environment"]
    finally:
        await actor.stop()
    assert family(os.getpid()) == {os.getpid()}
    longer = Engine(config.model_copy(update={"context_tokens": 8192}))
    with pytest.raises(ModelError, match="a context of 4,096 tokens, but the plan assumes 8,192"):
        await longer.start()
    await longer.stop()


_STARTER = """
import sys, threading, time
from pathlib import Path
from hc_ray.engines.embedded import EmbeddedServer
from tests.contract.test_launched_server import started
folder = Path(sys.argv[1])
own = started(folder)
server = EmbeddedServer(sys.argv[2], parallel=1, log_path=folder / "log") if len(sys.argv) > 2 else own
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["a server of one's own", pytest.param("embedded", marks=pytest.mark.engine)])
def test_a_server_outlives_the_thread_that_started_it_but_not_the_process(kind, tmp_path):
    words = [catalogue.pull("smollm2-135m-instruct")] if kind == "embedded" else []
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, tmp_path, *words], stdout=subprocess.PIPE, text=True)
    group = int(starter.stdout.readline())
    processes = family(group)
    assert len(processes) >= 2 and all(map(alive, processes))
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait(lambda: not any(map(alive, processes)), 6, "the end of all of them")
