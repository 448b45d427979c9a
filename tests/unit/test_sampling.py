"""What is sent beside the temperature: always something, and never left to a server's own defaults where it can be
said."""

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from hc_ray.domain.config import EngineConfig, Sampling
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Message, Prompt
from hc_ray.engines.http import HttpModel
from hc_ray.engines.probe import probe
from hc_ray_actors.engine import Endpoint, Engine, open_model
from hc_ray_actors.role_models import _told, role_model
from hc_ray_actors.trials import RoleSetup, Trials
from tests.fakes.engine_server import EngineServer, Rejected
from tests.fakes.scripts import echo_request

pytestmark = pytest.mark.usefixtures("home")
NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
TEXT = Prompt(role="solver", purpose="candidate", text="def f(")
CHAT = Prompt(role="tester", purpose="test", messages=(Message(role="user", content="hi"),))


def strict(*known: str, unknown: str = "{names}: unknown", top_k: Callable[[int], bool] = lambda k: True) -> Any:
    """A server that refuses every sampling parameter but the known ones."""

    def answer(body: dict[str, Any]) -> str:
        strange = sorted(body.keys() & NEUTRAL.keys() - set(known))
        if strange:
            raise Rejected(422, unknown.format(names=", ".join(strange)))
        if "top_k" in body and not top_k(body["top_k"]):
            raise Rejected(400, "top_k must be -1 or at least 1")
        return echo_request(body)

    return answer


async def sent_after_probe(answer: Any, prompts: tuple[Prompt, ...] = (TEXT, CHAT)) -> tuple[Any, list[dict[str, Any]]]:
    with EngineServer(answer) as server:
        async with aclosing(HttpModel(server.base_url, "fake", retries=0)) as model:
            seen = await probe(model)
        asked = len(server.bodies())
        async with aclosing(HttpModel(server.base_url, "fake", retries=0, sampling=seen.sampling)) as model:
            for prompt in prompts:
                await model.complete(prompt)
        bodies = server.bodies()[asked:]
        return seen, [{name: body[name] for name in NEUTRAL if name in body} for body in bodies]


async def test_a_server_is_sent_what_it_takes_and_what_it_refuses_is_found_named_or_not_and_recorded():
    seen, sent = await sent_after_probe(echo_request)
    assert seen.refused == () and seen.sampling == NEUTRAL and sent == [NEUTRAL, NEUTRAL]
    assert isinstance(json.loads(seen.model_dump_json())["sampling"]["top_k"], int)
    seen, sent = await sent_after_probe(strict("top_p", "repetition_penalty"))
    assert seen.refused == ("min_p", "repeat_penalty", "top_k")
    assert sent == [{"top_p": 1.0, "repetition_penalty": 1.0}] * 2
    seen, sent = await sent_after_probe(strict("top_p", "min_p", unknown="bad request"))
    assert seen.refused == ("repeat_penalty", "repetition_penalty", "top_k")
    assert sent == [{"top_p": 1.0, "min_p": 0.0}] * 2
    seen, _ = await sent_after_probe(strict("top_p", unknown=f"bad: {', '.join(NEUTRAL)}"))
    assert seen.refused == ("min_p", "repeat_penalty", "repetition_penalty", "top_k")
    assert seen.sampling == {"top_p": 1.0}
    seen, sent = await sent_after_probe(strict(*NEUTRAL, top_k=lambda k: k == -1 or k > 0))
    assert seen.refused == () and sent == [{**NEUTRAL, "top_k": -1}] * 2


@pytest.mark.parametrize(("together", "says", "refused"), [
    ({"messages", "min_p"}, "min_p", "min_p"),
    ({"repeat_penalty", "repetition_penalty"}, "given twice", "repeat_penalty"),
], ids=["one endpoint", "two spellings"])  # fmt: skip
async def test_what_one_endpoint_alone_refuses_is_sent_to_neither_and_of_two_spellings_one(together, says, refused):
    def answer(body: dict[str, Any]) -> str:
        if together <= body.keys():
            raise Rejected(400, says)
        return echo_request(body)

    seen, sent = await sent_after_probe(answer)
    assert seen.refused == (refused,) and all(body.keys() == NEUTRAL.keys() - {refused} for body in sent)


async def test_a_server_that_refuses_schemas_is_asked_without_one_that_was_busy_is_asked_with_them():
    schema, says = CHAT.model_copy(update={"schema_": {"type": "object"}}), [503]

    def answer(body: dict[str, Any]) -> str:
        if "response_format" in body and says:
            raise Rejected(says[0], "response_format is not supported")
        return echo_request(body)

    with EngineServer(answer) as server:
        config = EngineConfig(kind="openai", base_url=server.base_url, model="fake")
        async with aclosing(HttpModel(server.base_url, "fake", retries=0)) as busy:
            assert (await probe(busy)).refused == ()
        says[0] = 400
        endpoint = await Engine(config).start()
        assert endpoint.capabilities["refused"] == ["response_format"]
        model = open_model(config, endpoint, timeout=10)
        assert (await model.complete(schema)).text
        notes = _told(config, Capabilities.model_validate(endpoint.capabilities))
        assert len(notes) == 1 and "accepts no JSON schema" in notes[0]


async def test_an_engine_sends_the_sampling_that_its_plan_says() -> None:
    sampling = Sampling(top_p=0.9, top_k=40)
    with EngineServer(echo_request) as server:
        config = EngineConfig(kind="openai", base_url=server.base_url, model="fake", sampling=sampling)
        engine, profile, digest = role_model(config)
        endpoint = await Engine(engine).start()
        trials = Trials("t", None)
        setup = RoleSetup(engine=engine, endpoints=(endpoint,), profile=profile, digest=digest)
        await trials.arrange({"solver": setup}, {})
        asked = len(server.bodies())
        await trials.role("solver", 0).model.complete(TEXT)
        await trials.stop()
        (body,) = server.bodies()[asked:]
        assert {name: body[name] for name in NEUTRAL} == {**NEUTRAL, "top_p": 0.9, "top_k": 40}
        assert endpoint.capabilities["refused"] == []


async def test_two_roles_at_one_address_keep_their_own_sampling_which_is_part_of_the_digest():
    engine = EngineConfig(kind="openai", base_url="http://127.0.0.1:1/v1", model="m")
    trials, setups = Trials("t", None), {}
    for role, top_p in (("tester", 0.5), ("solver", 1.0)):
        endpoint = Endpoint(base_urls=(engine.base_url,), model="m", capabilities={"sampling": {"top_p": top_p}})
        setups[role] = RoleSetup(engine=engine, endpoints=(endpoint,), profile=Profile(), digest="d")
    await trials.arrange(setups, {})
    assert trials.role("tester", 0).model is not trials.role("solver", 0).model
    assert trials.role("tester", 0).model is trials.role("tester", 0).model
    bent = engine.model_copy(update={"sampling": Sampling(repetition_penalty=1.1)})
    assert role_model(engine)[2] != role_model(bent)[2] and role_model(bent)[1].sampling.repetition_penalty == 1.1
    assert role_model(engine)[2] == role_model(engine.model_copy(update={"sampling": Sampling()}))[2]
