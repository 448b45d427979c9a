"""How a server is spoken to: retries, bounds, secrets, and URLs as people write them."""

import asyncio
import contextlib
import json
import pickle
import socket
import threading
import time
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from hc_ray.agent.actions import functions
from hc_ray.domain.engine_config import EngineConfig
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.domain.prompt import Completion, Message, Prompt, ToolCall
from hc_ray.engines import remote
from hc_ray.engines import speed as bench
from hc_ray.engines.http import POOL, HttpModel, Seats, Spread
from hc_ray.engines.probe import probe
from hc_ray.engines.remote import normal_base_url, retry_after
from hc_ray.engines.speed import Level, find_knee
from hc_ray.engines.wire import count_of, text_of
from hc_ray_actors.asking.activity import Activities
from hc_ray_actors.asking.meter import Meter
from hc_ray_actors.engine import capabilities_of
from tests.fakes.engine_server import EngineServer, Rejected, prompt_of
from tests.fakes.scripts import echo_request

TEXT = Prompt(role="solver", purpose="candidate", text="def f(", seed=(1 << 40) + 5, stop=("\n",), context="secret")
CHAT = Prompt(role="tester", purpose="test", messages=(Message(role="user", content="hi"),), schema_={"type": "object"})


@asynccontextmanager
async def speaking(answer=echo_request, *, client=None, name="fake", **server):
    with EngineServer(answer, **server) as running:
        model = HttpModel(running.base_url, name, **{"backoff": 0.01, **(client or {})})
        yield running, model
        await model.aclose()


@pytest.mark.parametrize(("given", "meant"), [
    ("http://h:1", "http://h:1/v1"), ("http://h:1/", "http://h:1/v1"), ("http://h:1/v1/", "http://h:1/v1"),
    ("localhost:11434", "http://localhost:11434/v1"), ("https://h/api/v1", "https://h/api/v1"),
    ("https://h/v1beta/openai", "https://h/v1beta/openai"), ("http://h/v1/chat/completions", "http://h/v1"),
    ("http://h/proxy", "http://h/proxy/v1"),
])  # fmt: skip
def test_a_base_url_is_taken_as_people_write_it(given, meant):
    assert normal_base_url(given) == meant


@pytest.mark.parametrize("url", ["", "ftp://h", "http://", "http://h:port", "http://[::1"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ConfigError, match="base URL"):
        HttpModel(url, "m")


async def test_a_request_is_a_function_of_the_prompt_alone_and_carries_no_bookkeeping():
    async with speaking() as (server, model):
        for _ in range(2):
            await model.complete(TEXT)
            await model.complete(CHAT)
        text, chat, *again = [body for _, body in server.requests]
        assert [text, chat] == again
        sampled = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
        assert json.loads(text) == {
            "model": "fake", "prompt": "def f(", "max_tokens": 512, "temperature": 0.0, "seed": 5, "stop": ["\n"],
            **sampled,
        }  # fmt: skip
        assert {name: json.loads(chat)[name] for name in sampled} == sampled and json.loads(chat)["temperature"] == 0.0
        assert json.loads(chat)["response_format"]["json_schema"]["schema"] == {"type": "object"}
        assert b"secret" not in text and b"candidate" not in text


@pytest.mark.parametrize(("statuses", "asked", "says"), [
    ([429] * 2, 3, None), ([500] * 2, 3, None), ([503] * 2, 3, None), ([500], 1, " failed: HTTP 500 "),
    ([500] * 9, 3, r"failed 3 times; last error: HTTP 500 .*told to fail"), ([400], 1, "HTTP 400"),
])  # fmt: skip
async def test_a_busy_server_is_asked_again_so_often_and_one_that_refuses_is_not(statuses, asked, says):
    async with speaking(failures=statuses, client={"retries": 0 if statuses == [500] else 2}) as (server, model):
        with pytest.raises(EngineError, match=says) if says else nullcontext():
            assert (await model.complete(TEXT)).text.startswith("answer")
        assert len(server.requests) == asked


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), (" 0 ", 0.0), ("soon", 0.0), ("", 0.0), ("-3", 0.0),
                                                 ("Wed, 21 Oct 2015 07:28:00 GMT", 90.0),
                                                 ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0)])  # fmt: skip
def test_a_server_says_in_seconds_or_by_a_date_how_long_it_wants_to_be_left_alone(header, seconds, monkeypatch):
    monkeypatch.setattr(remote.time, "time", lambda: 1_445_412_480.0 - 90)
    assert retry_after(header) == seconds


async def test_a_request_is_repeated_when_the_server_allows_it_and_not_by_all_at_once(monkeypatch):
    paused, sleep = [], asyncio.sleep
    monkeypatch.setattr(remote.asyncio, "sleep", lambda seconds: paused.append(seconds) or sleep(0))
    for pause in ("", "5", "9999"):
        async with speaking(failures=[503, 429], pause=pause, client={"backoff": 1.0}) as (_, model):
            await model.complete(TEXT)
    first, second, *asked = paused
    assert 1 <= first <= 1.5 and 2 <= second <= 3 and first != 1 and asked[2:] == [60.0, 60.0]
    assert 6 <= asked[0] <= 6.5 and 7 <= asked[1] <= 8


async def test_what_a_server_counted_of_an_answer_that_it_then_failed_to_give_is_in_no_record():
    counted = []

    def answer(body):
        counted.append(len(body["prompt"]))
        if len(counted) < 3:
            raise Rejected(503, "counted, and then broke down")
        return "one two"

    activities = Activities(lambda use: None)
    async with speaking(answer) as (_, model):
        with activities.trial() as trial:
            queue = activities.engine("m", 1)
            meter = Meter(lambda: ((model, queue),), trial)
            told = await meter.complete(TEXT)
    assert len(counted) == 3 and told.completion_tokens == 2
    assert (queue.account.requests, queue.account.completion_tokens, queue.outstanding) == (1, 2, 0)


async def test_a_port_where_nobody_listens_and_a_request_past_its_time_are_engine_errors_that_survive_pickling():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = HttpModel(f"127.0.0.1:{port}", "m", retries=1, backoff=0.01)
    with pytest.raises(EngineError, match=f"127.0.0.1:{port}/v1 failed 2 times") as caught:
        await model.complete(TEXT)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    await model.aclose()
    async with speaking(delay=1.0, client={"timeout": 0.2}) as (_, model):
        with pytest.raises(EngineError, match=r"did not answer within 0\.2 s"):
            await model.complete(TEXT)


async def test_a_server_that_counts_nothing_gives_unknown_and_never_zero_and_has_no_knee():
    async with speaking(usage=False) as (_, model):
        answer = await model.complete(TEXT)
        assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)
        with pytest.raises(EngineError, match="reports no token counts"):
            await find_knee(model, levels=(1,), seconds=0.05)


@pytest.mark.parametrize(("said", "meant"), [(7, 7), (0, 0), (-1, None), ("7", None), (None, None)])
def test_a_count_that_can_be_none_is_unknown(said, meant):
    assert count_of({"prompt_tokens": said}, "prompt_tokens") == meant


def test_of_an_answer_in_parts_the_text_counts_and_the_thoughts_do_not():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "def f("},
             {"type": "text", "text": "): pass"}]  # fmt: skip
    assert text_of({"choices": [{"message": {"content": parts}}]}) == "def f(): pass"


async def test_the_key_is_sent_and_shown_nowhere():
    async with speaking(key="sk-123", client={"api_key": "sk-123"}) as (server, right):
        assert (await right.complete(TEXT)).text and "sk-123" not in repr(right)
        wrong = HttpModel(server.base_url.replace("//", "//ann:pw-456@"), "fake", api_key="sk-999")
        for act in (wrong.complete(TEXT), probe(wrong)):
            with pytest.raises(EngineError, match="HTTP 401") as caught:
                await act
            assert "sk-999" not in str(caught.value) and "pw-456" not in str(caught.value) + repr(wrong)
            assert caught.value.__cause__ is None
        await wrong.aclose()


async def test_who_names_no_key_for_a_server_that_wants_one_is_told_how():
    async with speaking(key="sk-123") as (server, _):
        config = EngineConfig.model_validate({"kind": "openai", "base_url": server.base_url, "model": "fake"})
        with pytest.raises(ModelError, match=r"HTTP 401 .*; export .* in a variable and name that \(--api-key-env\)$"):
            await capabilities_of(config, config.urls[0])


async def test_tokens_are_estimated_upwards_where_the_server_has_no_tokenizer_and_for_a_text_that_it_refuses():
    async with speaking(endpoints=("/v1/completions",)) as (server, model):
        assert await model.count_tokens("éé") == 2
        tried = len(server.requests)
        assert await model.count_tokens("seven b") == 3 and len(server.requests) == tried
    async with speaking() as (server, model):
        assert await model.count_tokens("one two three") == 3
        server.failures.append(400)
        assert [await model.count_tokens("one two four") for _ in range(2)] == [4, 3]
        tried = len(server.requests)
        assert await model.count_tokens("one two three") == 3 and len(server.requests) == tried, "counted once"


async def test_a_proxy_of_the_environment_stands_before_neither_this_machine_nor_servers_of_the_cluster(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    async with speaking(client={"retries": 0}) as (_, model):
        assert (await model.complete(TEXT)).text
    own = EngineConfig(kind="server", command="any {host} {port}", model="fake", context_tokens=4096)
    with EngineServer(echo_request, host="127.0.0.2") as server:
        assert (await capabilities_of(own, server.base_url.replace("127.0.0.1", "127.0.0.2"))).chat


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no table of connections")
async def test_whoever_waits_for_an_answer_looks_whether_the_other_machine_is_still_there():
    async with speaking(delay=1.0) as (server, model):
        asked, port = asyncio.ensure_future(model.complete(TEXT)), f":{int(server.base_url[:-3].split(':')[-1]):04X}"
        await asyncio.sleep(0.5)
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        timers = [line[5].split(":")[0] for line in lines if line[2].endswith(port) and line[3] == "01"]
        await asked
    assert timers == ["02"], "a timer of keepalive"


async def test_a_server_with_neither_endpoint_is_told_with_what_it_lists_and_one_that_answers_otherwise_has_no_seed():
    async with speaking(endpoints=("/v1/models",), name="other") as (_, model):
        with pytest.raises(EngineError, match=r"neither chat nor completions: HTTP 404 .*it lists fake"):
            await probe(model)
        config = EngineConfig.model_validate({"kind": "openai", "base_url": model.shown_url, "model": "other"})
        with pytest.raises(
            ModelError, match=r"^no model answers at (\S+): answers neither .*; choose one of those \(--model"
        ):
            await capabilities_of(config, config.urls[0])
    count = iter(range(1000))
    async with speaking(lambda body: str(next(count))) as (_, model):
        assert not (await probe(model)).seed


async def test_more_requests_at_once_are_tried_as_long_as_they_gain(monkeypatch):
    rates = {1: 10.0, 2: 9.0, 4: 30.0, 8: 31.0, 16: 90.0}

    async def measured(_, concurrency, *__):
        return Level(
            concurrency=concurrency, output_tokens_per_second=rates[concurrency],
            prompt_tokens_per_second=0.0, p95_seconds=1.0,
        )  # fmt: skip

    monkeypatch.setattr(bench, "_measure", measured)
    async with speaking() as (_, model):
        curve, speed = await find_knee(model, levels=tuple(rates), surely=2, seconds=0.05)
        assert [level.concurrency for level in curve] == [1, 2, 4, 8] and speed.knee == 4


class OneAfterAnother:
    """A model that works on one request at a time: 1 ms for each token of a prompt, 4 ms for each of an answer."""

    def __init__(self):
        self.free = asyncio.Lock()

    async def complete(self, prompt):
        async with self.free:
            await asyncio.sleep(0.020 + 0.004 * prompt.max_tokens)
        return Completion(text="", prompt_tokens=20, completion_tokens=prompt.max_tokens)


async def test_a_prompt_that_waits_is_not_half_read_and_what_prompts_took_is_no_slowness_of_answers():
    (level,), speed = await find_knee(OneAfterAnother(), levels=(4,), seconds=0.5, max_tokens=20)
    assert speed.prompt_tokens_per_second == pytest.approx(1000 * 20 / 24, rel=0.4)
    reading = level.prompt_tokens_per_second / speed.prompt_tokens_per_second
    assert speed.completion_tokens_per_second == pytest.approx(level.output_tokens_per_second / (1 - reading))


PROPS = {"default_generation_settings": {"n_ctx": 5120}}


@pytest.mark.parametrize(("server", "context"), [
    ({"listed": {"max_model_len": 32_768}}, 32_768), ({"props": PROPS}, 5120),
    ({"listed": {"max_model_len": 9000}, "props": PROPS}, 9000), ({"props": {"n": "x"}, "context": 4096}, 4096),
    ({"listed": {"max_model_len": 9000, "id": "other"}, "context": 700}, 700), ({}, None), ({"usage": False}, None),
    ({"context": 3000, "refuses": True}, 2000), ({"context": 100, "refuses": True}, None),
])  # fmt: skip
async def test_the_probe_is_told_the_context_or_counts_what_is_left_of_a_long_prompt(server, context):
    async with speaking(**server) as (_, model):
        assert (await probe(model)).context == context


async def test_a_server_that_is_too_slow_for_a_long_prompt_is_not_taken_for_a_small_one():
    def slow_to_read(body):
        time.sleep(0.6 * (len(prompt_of(body)) > 12_000))
        return "blue"

    async with speaking(slow_to_read, client={"timeout": 0.3, "retries": 0}) as (_, model):
        assert (await probe(model)).context is None


async def test_a_server_that_is_silent_is_given_up_at_the_first_short_questions():
    async with speaking(delay=5) as (_, model):
        with pytest.raises(EngineError, match=r"sent nothing within 0\.2 s \(engine\.request_sec"):
            await probe(model, first=0.2)


async def test_native_calls_go_to_the_server_and_come_back_as_it_wrote_them():
    call = ToolCall(id="1", name="sh", arguments='{"command": "ls"}')
    messages = (Message(role="user", content="go"), Message(role="assistant", content="", tool_calls=(call,)),
                Message(role="tool", content="a.py", tool_call_id="1"))  # fmt: skip
    async with speaking(tools=True) as (server, model):
        answer = await model.complete(Prompt(role="solver", purpose="turn", messages=messages, tools=functions()))
        (body,) = server.bodies()
    called = [(one.name, json.loads(one.arguments)) for one in answer.tool_calls]
    assert (answer.text, called) == ("", [("sh", {"path": "/tmp"})])
    assert body["messages"][1]["tool_calls"][0]["function"] == {"name": "sh", "arguments": '{"command": "ls"}'}
    assert body["messages"][2]["tool_call_id"] == "1" and len(body["tools"]) == len(functions())


async def test_prompts_are_spread_over_servers_by_what_each_has_in_hand():
    async with speaking() as (one, first), speaking() as (other, second):
        model = Spread([first, second], Seats(2))
        await asyncio.gather(*(model.complete(TEXT) for _ in range(6)))
        assert len(one.requests) == len(other.requests) == 3
        await model.complete(TEXT)
        assert (len(one.requests), len(other.requests)) == (4, 3) and await model.count_tokens("abc") >= 1


async def test_all_who_ask_an_engine_share_its_slots_and_name_the_lowest_that_is_free():
    async with speaking() as (server, first):
        seats = Seats(1, slots=3)
        models = [Spread([first], seats), Spread([first], seats)]
        await asyncio.gather(*(model.complete(TEXT) for model in models))
        await models[1].complete(TEXT)
        *together, last = [body.get("id_slot") for body in server.bodies()]
        assert set(together) == {0, 1} and last == 0


def test_no_slot_is_named_where_others_ask_too_nor_while_more_is_in_hand_than_there_are_slots():
    with Seats(2).one() as place:
        assert place == (0, None)
    seats = Seats(1, slots=2)
    with contextlib.ExitStack() as held:
        assert [held.enter_context(seats.one()) for _ in range(2)] == [(0, 0), (0, 1)]
        beyond = held.enter_context(seats.one())
        assert beyond == held.enter_context(seats.one()) == (0, None)
    with seats.one() as place:
        assert place == (0, 0)


async def test_as_many_requests_as_allowed_are_under_way_in_small_pools_and_what_needs_no_slot_waits_for_none_of_them():
    long, pools, most = threading.Event(), [], []

    def answer(body):
        long.wait(timeout=30)
        most.append(max(pools[0]._busy))
        return "x"

    async with speaking(answer, client={"parallel": 16}) as (server, model):
        pools.append(model._client)
        asked = [asyncio.ensure_future(model.complete(TEXT)) for _ in range(24)]
        async with asyncio.timeout(30):
            while server.most_at_once < 16:
                await asyncio.sleep(0.01)
        assert await asyncio.gather(*(model.count_tokens("one two three") for _ in range(9))) == [3] * 9
        assert not any(one.done() for one in asked) and sum(pools[0]._busy) == 16
        long.set()
        assert [one.text for one in await asyncio.gather(*asked)] == ["x"] * 24 and not any(pools[0]._busy)
    assert 0 < max(most) <= POOL
