import hashlib

import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.engines import embedded
from hc_ray.engines.embedded import EmbeddedServer, check_library, servers_of
from hc_ray_actors.engine import Engine, remembered_capabilities
from hc_ray_actors.role_models import role_model
from tests.fakes.engine_server import EngineServer
from tests.fakes.scripts import echo_request

GGUF = b"GGUF" + bytes(range(256))


@pytest.fixture
def weights(home, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(GGUF)
    return path


def test_weights_of_another_digest_are_refused_when_planned_and_before_anything_is_started(weights, tmp_path):
    planned = hashlib.sha256(GGUF + b"once").hexdigest()
    server = EmbeddedServer(weights, sha256=planned, log_path=tmp_path / "engine.log")
    with pytest.raises(EngineError, match=f"m.gguf has different weights .*{planned[:16]}") as caught:
        server.start()
    assert "\n" not in str(caught.value) and server.pid is None and not (tmp_path / "engine.log").exists()
    with pytest.raises(ModelError, match=r"m\.gguf has SHA-256 .*, but the config requires 0000"):
        role_model(EngineConfig(model=str(weights), sha256="0" * 64))


async def test_a_node_whose_weights_changed_since_the_plan_starts_no_engine(weights):
    planned, _, _ = role_model(EngineConfig(model=str(weights)))
    assert planned.sha256 == hashlib.sha256(GGUF).hexdigest()
    weights.write_bytes(GGUF[:-1] + b"!")
    with pytest.raises(EngineError, match="different weights"):
        await Engine(planned).start()


def test_small_weights_are_held_by_several_servers_that_share_the_threads_and_large_ones_once(weights, monkeypatch):
    assert [servers_of(weights, threads) for threads in (1, 2, 4, 6)] == [[1], [1, 1], [1, 1, 1, 1], [2, 2, 1, 1]]
    monkeypatch.setattr(embedded, "SMALL", len(GGUF) - 1)
    assert servers_of(weights, 6) == [6]


def test_a_machine_without_a_library_of_the_engines_is_told_which_package_brings_it(weights, tmp_path, monkeypatch):
    check_library()
    fault = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({fault!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for act in (check_library, EmbeddedServer(weights, log_path=tmp_path / "engine.log").start):
        with pytest.raises(ConfigError, match=r"needs libgomp\.so\.1, which this machine lacks\ninstall libgomp1"):
            act()
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('built for another processor')\n")
    with pytest.raises(ConfigError, match="cannot be loaded: ImportError: built for another processor"):
        check_library()


async def test_what_the_embedded_engine_can_do_is_asked_until_it_showed_the_same_twice(weights):
    count = iter(range(1000))
    with EngineServer(echo_request) as steady, EngineServer(lambda _: str(next(count))) as unsteady:

        async def asked(server, **settings):
            before = len(server.requests)
            config = EngineConfig(**{"kind": "embedded", "model": str(weights)} | settings)
            seen = await remembered_capabilities(config, server.base_url, "fake", None)
            return seen.seed, len(server.requests) > before

        assert [await asked(one) for one in (steady, unsteady, steady)] == [(True, True), (False, True), (True, True)]
        assert [await asked(steady) for _ in range(3)] == [(True, True), (True, False), (True, False)]
        assert await asked(steady, parallel=3) == await asked(steady, sha256="0" * 64) == (True, True)
        assert [await asked(steady, kind="openai", base_url=steady.base_url) for _ in range(3)] == [(True, True)] * 3
        weights.write_bytes(GGUF[:-1] + b"!")
        assert await asked(steady) == (True, True)


async def test_a_data_root_that_takes_no_file_costs_only_what_would_be_remembered(weights, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(weights))
    with EngineServer(echo_request) as server:
        config = EngineConfig(kind="embedded", model=str(weights), sha256="0" * 64)
        assert (await remembered_capabilities(config, server.base_url, "fake", None)).seed
