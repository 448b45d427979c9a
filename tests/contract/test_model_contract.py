"""What ``ports.Model`` promises, held by every adapter: over HTTP against a real llama.cpp server and against a server
without a model, by Anthropic's SDK, and by the scripted model."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from hc_ray.domain.config import Sampling
from hc_ray.domain.errors import ModelError
from hc_ray.domain.ports import Model
from hc_ray.domain.prompt import Message, Prompt
from hc_ray.engines import catalogue
from hc_ray.engines.embedded import EmbeddedServer
from hc_ray.engines.http import HttpModel
from hc_ray.engines.probe import probe
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.engines.wire import sampling_fields
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.engine_server import EngineServer
from tests.fakes.processes import family
from tests.fakes.scripts import echo, echo_request

NAME = "smollm2-135m-instruct"


def chat(seed: int = 0, say: str = "Name three colours.", **more: object) -> Prompt:
    messages = (Message(role="user", content=say),)
    return Prompt.model_validate({"role": "solver", "purpose": "test", "messages": messages, "max_tokens": 8,
                                  "seed": seed, **more})  # fmt: skip


def continuation(seed: int = 0, text: str = "def add(a, b):\n    return", **more: object) -> Prompt:
    return Prompt.model_validate({"role": "solver", "purpose": "test", "text": text, "max_tokens": 8, "seed": seed,
                                  **more})  # fmt: skip


@pytest.fixture(scope="module")
def weights() -> Path:
    """The default model's weights, fetched as ``models pull`` does where they are missing."""
    return catalogue.pull(NAME)


@pytest.fixture(scope="module")
def embedded(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    server = EmbeddedServer(weights, parallel=4, context_tokens=512, threads=1, log_path=log)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def client(embedded: EmbeddedServer) -> AsyncIterator[HttpModel]:
    async with aclosing(HttpModel(embedded.base_url, NAME)) as real:
        yield real


WITH_SEED = ("llama.cpp", "fake server", "scripted")
ALL_FORMS = [*((engine, ask) for engine in WITH_SEED for ask in (chat, continuation)), ("anthropic", chat)]


@pytest.fixture
async def model(request: pytest.FixtureRequest) -> AsyncIterator[Model]:
    if request.param == "scripted":
        yield ScriptedModel(echo)
    elif request.param == "anthropic":
        from hc_ray.engines.anthropic_messages import AnthropicModel  # its SDK takes half a second

        with AnthropicServer(echo_request) as server:
            claude = AnthropicModel(server.base_url, "claude-fake", api_key="sk-ant-any", parallel=4)
            async with aclosing(claude):
                yield claude
    elif request.param == "fake server":
        with EngineServer(echo_request) as server:
            async with aclosing(HttpModel(server.base_url, "fake", parallel=4)) as client:
                yield client
    else:
        url = request.getfixturevalue("embedded").base_url
        async with aclosing(HttpModel(url, NAME, parallel=4, timeout=300)) as client:
            yield client


@pytest.mark.parametrize(("model", "ask"), ALL_FORMS, indirect=["model"])
async def test_a_prompt_gets_a_text_and_token_counts_in_every_form_that_an_engine_has(model: Model, ask) -> None:
    answer = await model.complete(ask())
    assert answer.text.strip() and answer.prompt_tokens is not None and answer.prompt_tokens > 0
    assert answer.completion_tokens is not None and 0 < answer.completion_tokens <= 8 + 1 and answer.finish_reason


@pytest.mark.parametrize(("model", "ask"), ALL_FORMS, indirect=["model"])
async def test_the_same_prompt_and_seed_give_the_same_text_alone_and_under_load(model: Model, ask) -> None:
    prompts = [ask(seed, temperature=0.9, max_tokens=16) for seed in range(4)]
    alone = [(await model.complete(prompt)).text for prompt in prompts]
    assert alone == [answer.text for answer in await asyncio.gather(*(model.complete(prompt) for prompt in prompts))]


@pytest.mark.parametrize("model", WITH_SEED, indirect=True)
async def test_another_seed_gives_another_text(model):
    answers = {(await model.complete(continuation(seed, "My favourite", temperature=1.2))).text for seed in range(4)}
    assert len(answers) > 1


@pytest.mark.parametrize("model", [*WITH_SEED, "anthropic"], indirect=True)
async def test_tokens_of_a_longer_text_are_more(model):
    short, long = await model.count_tokens("one two"), await model.count_tokens("one two three four five six")
    assert 0 < short < long


def test_a_server_of_small_weights_reads_them_into_memory_of_its_own(embedded: EmbeddedServer) -> None:
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in family(embedded.pid)]
    assert any("xllamacpp" in one for one in maps) and not any(".gguf" in one for one in maps)


async def test_a_real_server_cuts_at_stop_sequences_and_at_the_token_limit(client: HttpModel) -> None:
    stopped = await client.complete(continuation(text="1, 2, 3, 4, 5, 6,", stop=(" 9",), max_tokens=40))
    assert "9" not in stopped.text and stopped.finish_reason == "stop"
    limited = await client.complete(continuation(text="1, 2, 3, 4, 5, 6,", max_tokens=5))
    assert limited.finish_reason == "length" and limited.completion_tokens == 5


@pytest.mark.parametrize("ask", [chat, continuation])
async def test_a_real_server_obeys_a_schema_in_both_forms(client: HttpModel, ask) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [417]}}, "required": ["n"], "additionalProperties": False}
    assert "".join((await client.complete(ask(schema_=schema, max_tokens=30))).text.split()) == '{"n":417}'


async def test_a_prompt_beyond_the_context_is_an_empty_answer_and_no_engine_failure(client: HttpModel) -> None:
    answer = await client.complete(continuation(text="word " * 2000))
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("", "context", 0)


async def test_the_probe_of_a_real_server_sees_what_it_can_do(embedded: EmbeddedServer) -> None:
    async with aclosing(HttpModel(embedded.base_url.removesuffix("/v1") + "/", NAME)) as client:
        seen = await probe(client)
    assert seen.seed and seen.chat and seen.completion
    assert seen.models == (catalogue.catalogue()[NAME].path.stem,)
    assert seen.refused == () and seen.sampling == sampling_fields(Sampling())


async def test_a_real_server_samples_by_what_is_sent_and_by_nothing_of_its_own(embedded: EmbeddedServer) -> None:
    async def texts(sampling: Sampling | None = None, *, seeds: int = 1, temperature: float = 0.0) -> set[str]:
        prompts = [continuation(seed, "My favourite", temperature=temperature) for seed in range(seeds)]
        fields = None if sampling is None else sampling_fields(sampling)
        async with aclosing(HttpModel(embedded.base_url, NAME, sampling=fields)) as client:
            return {(await client.complete(prompt)).text for prompt in prompts}

    greedy = await texts()
    assert await texts(Sampling(top_k=1), seeds=3, temperature=1.5) == greedy
    assert await texts(Sampling(repetition_penalty=1.5)) != greedy
    limited = Sampling(top_p=0.95, top_k=40, min_p=0.05)  # llama-server's own values
    assert await texts(seeds=4, temperature=1.5) != await texts(limited, seeds=4, temperature=1.5)


def test_a_file_that_is_no_loadable_model_is_a_model_error_in_one_line(weights: Path, tmp_path: Path) -> None:
    text, cut = tmp_path / "text.gguf", tmp_path / "cut.gguf"
    text.write_text("hello")
    cut.write_bytes(weights.read_bytes()[: 1 << 20])
    none = tmp_path / "none.gguf"
    for path, says in ((text, "not a GGUF file"), (cut, "could not be loaded"), (none, "No such file")):
        with pytest.raises(ModelError, match=says) as caught:
            EmbeddedServer(path, parallel=1, context_tokens=256, log_path=tmp_path / "engine.log").start()
        assert "\n" not in str(caught.value)
