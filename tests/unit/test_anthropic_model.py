"""How Claude is spoken to by its SDK: a fake server that refuses what the real one refuses stands for it."""

import json
import sys
from contextlib import asynccontextmanager

import pytest

from hc_ray.agent.actions import functions
from hc_ray.domain.config import Sampling
from hc_ray.domain.engine_config import EngineConfig
from hc_ray.domain.errors import EngineError, ModelError
from hc_ray.domain.prompt import Message, Prompt, ToolCall
from hc_ray_actors.engine import Engine, capabilities_of
from hc_ray_actors.role_models import role_model
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.scripts import echo_request
from tests.fakes.tasks import make_task

KEY = "sk-ant-secret-0123456789"
CALL = ToolCall(id="toolu_1", name="sh", arguments='{"command": "ls"}')


def chat(*messages: tuple[str, str], **more: object) -> Prompt:
    told = [Message.model_validate({"role": role, "content": text}) for role, text in messages or [("user", "Hello.")]]
    return Prompt.model_validate({"role": "solver", "purpose": "turn", "messages": told, **more})


def claude(*words, **settings):
    from hc_ray.engines.anthropic_messages import AnthropicModel  # its SDK takes half a second

    return AnthropicModel(*words, **settings)


@asynccontextmanager
async def speaking(answer=echo_request, *, client=None, name="claude-fake", **server):
    with AnthropicServer(answer, **server) as running:
        model = claude(running.base_url, name, **{"api_key": KEY, "backoff": 0.01, **(client or {})})
        yield running, model
        await model.aclose()


async def test_a_request_holds_what_the_api_knows_and_no_seed_schema_or_bookkeeping():
    prompt = chat(("system", "Be brief."), ("user", "Hi."), temperature=1.4, seed=7, stop=("\n\n", "END"), max_tokens=9,
                  schema_={"type": "object"}, context="secret")  # fmt: skip
    async with speaking(client={"sampling": {"temperature": 1.0, "top_k": 40}}) as (server, model):
        await model.complete(prompt)
    assert server.bodies() == [{
        "model": "claude-fake", "max_tokens": 9, "system": "Be brief.", "temperature": 1.0, "top_k": 40,
        "stop_sequences": ["END"], "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
    }]  # fmt: skip
    (wire,) = server.wire
    assert f"x-api-key: {KEY}".encode() in wire.lower() and b"anthropic-version" in wire.lower()


async def test_native_tools_go_there_and_back_and_their_results_are_the_users_turn():
    asked = chat(("system", "s"), ("user", "Look."), tools=functions())
    async with speaking(tools=True) as (server, model):
        answer = await model.complete(asked)
        (call,) = answer.tool_calls
        assert (answer.finish_reason, call.name, json.loads(call.arguments)) == ("tool_calls", "sh", {"path": "/tmp"})
        said = Message(role="assistant", content="", tool_calls=(call, CALL.model_copy(update={"id": "toolu_2"})))
        seen = [Message(role="tool", content="a.py", tool_call_id=f"toolu_{i}") for i in (1, 2)]
        messages = (*asked.messages, said, *seen, Message(role="user", content="Go on."))
        await model.complete(asked.model_copy(update={"messages": messages}))
    first, second = server.bodies()
    assert [tool["name"] for tool in first["tools"]] == [one["function"]["name"] for one in functions()]
    assert first["tools"][0]["input_schema"]["type"] == "object" and "cache_control" not in str(first)
    kinds = [[block["type"] for block in turn["content"]] for turn in second["messages"]]
    assert kinds == [["text"], ["tool_use"] * 2, ["tool_result", "tool_result", "text"]]
    assert second["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


async def test_thinking_is_recorded_apart_all_prompt_tokens_are_counted_and_a_cut_answer_says_so():
    async with speaking(lambda body: "one two three", thinks="Let me see.", cached=4) as (_, model):
        whole = await model.complete(chat(("user", "a b c d e f g h i j")))
        cut = await model.complete(chat(max_tokens=2))
    assert (whole.text, whole.reasoning, whole.finish_reason) == ("one two three", "Let me see.", "stop")
    assert (whole.prompt_tokens, whole.cached_tokens) == (10, 4) and whole.completion_tokens
    assert (cut.text, cut.finish_reason) == ("one two", "length")


async def test_a_server_that_stays_busy_or_is_gone_is_an_engine_error_without_the_key():
    async with speaking(failures=[529] * 9, client={"retries": 1}) as (server, model):
        with pytest.raises(EngineError, match="failed 2 times; last error: HTTP 529 overloaded_error"):
            await model.complete(chat())
        server.answer, server.failures = (lambda body: f"not {KEY}"), [400]
        with pytest.raises(EngineError, match="refused the request: HTTP 400 invalid_request_error"):
            await model.complete(chat())
    with pytest.raises(EngineError, match="failed 2 times; last error: Connect") as caught:
        await model.complete(chat())
    assert KEY not in str(caught.value) + repr(model)
    await model.aclose()


async def test_a_prompt_that_does_not_fit_is_an_empty_answer_and_a_text_to_continue_is_refused():
    async with speaking(context=5) as (_, model):
        answer = await model.complete(chat(("user", "word " * 9)))
        assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("", "context", 0)
        with pytest.raises(EngineError, match="only chat"):
            await model.complete(Prompt(role="solver", purpose="candidate", text="def f("))


async def test_tokens_are_counted_by_the_server_and_where_it_cannot_by_their_bytes():
    async with speaking() as (_, model):
        assert [await model.count_tokens(text) for text in ("one two three", " ", "")] == [3, 1, 0]
    async with speaking(endpoints=("/v1/messages",)) as (server, model):
        assert [await model.count_tokens("one two three") for _ in range(2)] == [5, 5] and len(server.requests) == 1


async def test_the_probe_says_what_it_lacks_and_what_a_model_refuses():
    listed = {"max_input_tokens": 200_000}
    async with speaking(tools=True, listed=listed) as (server, model):
        seen = await model.probe(Sampling(top_p=0.9, min_p=0.1))
        assert len(server.bodies()) == 1
    assert (seen.seed, seen.completion) == (False, False)
    assert seen.chat and seen.tools and (seen.context, seen.models) == (200_000, ("claude-fake",))
    assert seen.sampling == {"temperature": 1.0, "top_p": 0.9} and seen.refused == ("min_p",)
    async with speaking(refuses_fields=("temperature", "top_p")) as (server, model):
        seen = await model.probe(Sampling(top_p=0.9, top_k=5))
        assert seen.sampling == {"top_k": 5} and seen.refused == ("temperature", "top_p") and not seen.tools
        silent = claude(server.base_url, "claude-fake", api_key=KEY, sampling=seen.sampling)
        assert (await silent.complete(chat(temperature=0.3))).text
        await silent.aclose()
    async with speaking(name="claude-none") as (_, model):
        with pytest.raises(
            ModelError, match=r"claude-none does not answer at .*404 not_found_error.* lists claude-fake"
        ):
            await model.probe()


async def test_a_key_is_named_by_its_variable_and_a_missing_or_refused_one_is_one_line_that_says_what_to_do(
    monkeypatch,
):
    plain = EngineConfig.model_validate({"kind": "anthropic", "model": "claude-fake"})
    assert (plain.urls, plain.api_key_env) == (("https://api.anthropic.com",), "ANTHROPIC_API_KEY")
    assert EngineConfig.model_validate(plain.model_dump()) == plain
    with AnthropicServer(echo_request, key=KEY, listed={"max_input_tokens": 9000}) as server:
        given = {"kind": "anthropic", "model": "claude-fake", "base_url": server.base_url, "api_key_env": "MY_CLAUDE"}
        config = EngineConfig.model_validate(given)
        monkeypatch.setenv("MY_CLAUDE", KEY)
        seen = await capabilities_of(config, config.urls[0])
        engine, profile, _ = role_model(config, seen)
        assert (profile.name, profile.context_tokens, profile.form) == ("capable", 9000, "chat")
        assert await Engine(engine).fault() is None and KEY not in engine.model_dump_json()
        monkeypatch.setenv("MY_CLAUDE", "sk-ant-wrong-0123456789")
        with pytest.raises(ModelError, match=r"HTTP 401 .*; export a valid API key in MY_CLAUDE$") as caught:
            await capabilities_of(config, config.urls[0])
        assert "sk-ant" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("words", "says"), [
    (["--model", "claude-x"], "ANTHROPIC_API_KEY is not set: export your API key in it"),
    ([], "--engine anthropic needs --model NAME"),
    (["--engine", "openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--api-key-env", "NO_KEY"],
     "NO_KEY is not set: export your API key in it"),
    (["--model", "claude-x", "--api-key-env", "A_KEY"], "SDK; install it: pip install 'hc-ray[claude]'"),
])  # fmt: skip
def test_what_is_missing_is_told_in_one_line(words, says, monkeypatch, hc_ray, home, tmp_path):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("A_KEY", KEY)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.delitem(sys.modules, "hc_ray.engines.anthropic_messages", raising=False)
    make_task(tmp_path / "set")
    out, given = tmp_path / "out", ["-p", tmp_path / "set", "-a", "raw", "--engine", "anthropic"]
    said = hc_ray("sweep", *given, "-o", out, *words, code=2)
    assert says in said and len(said.splitlines()) == 1 and KEY not in said and not out.exists()
