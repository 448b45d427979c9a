"""A server without completions is asked in the chat form alone, and one without chat in the other, from the plan on."""

import asyncio
from types import SimpleNamespace

import pytest
import yaml
from pydantic import ValidationError

from hc_ray.domain.config import EngineConfig, Sampling, SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError, EngineError, ModelError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.profile import usable
from hc_ray.domain.value import changed
from hc_ray.engines.catalogue import remote_profile_path
from hc_ray.engines.profiles import WHOLE_CONTEXT
from hc_ray.engines.speed import REQUEST_SECONDS, Speed, keep_speed, known_speed, request_seconds
from hc_ray_actors.driver.configs import drafts, settle
from hc_ray_actors.driver.estimate import FALLBACK_RATE, expected_seconds, remember_rate
from hc_ray_actors.engine import Engine
from hc_ray_actors.engine_places import located
from hc_ray_actors.integrations import harbor_trial
from hc_ray_actors.jobs import bench
from hc_ray_actors.jobs.answering import answering
from hc_ray_actors.role_models import role_model, role_models
from hc_ray_actors.trials import RoleSetup, Trials
from tests.fakes.engine_server import EngineServer, Rejected
from tests.fakes.scripts import echo_request

pytestmark = pytest.mark.usefixtures("home")
NAME = "smollm2-135m-instruct"
CHAT_ONLY = ("/v1/chat/completions", "/v1/models")


def engine(server, model=NAME, **more):
    return EngineConfig.model_validate({"kind": "openai", "base_url": server.base_url, "model": model, **more})


def test_a_plan_says_what_a_chat_only_server_changes_and_nothing_where_completions_are_answered():
    with EngineServer(echo_request, endpoints=CHAT_ONLY, models=(NAME,)) as server:
        config = SweepConfig(engine=engine(server))
        planned = role_models(config)
        asked = len(server.bodies())
    assert set(planned.models) == {"tester", "solver"}
    for _, profile, digest in planned.models.values():
        assert (profile.form, profile.test_form) == ("chat", "chat") and digest != role_model(config.engine)[2]
    why, note = planned.notes
    assert note.startswith("tester, solver: ") and NAME in note and "chat" in note
    assert why.startswith(f"{NAME}: profile `tiny` (measured for this model; unless set otherwise budget.tokens: 2200")
    assert asked < 12  # roles that share a server share the look at it
    with EngineServer(echo_request, models=(NAME,)) as server:
        planned = role_models(SweepConfig(engine=engine(server)))
    assert planned.models["solver"][1].form == "completion" and len(planned.notes) == 1


def test_a_plan_asks_a_server_without_chat_for_completions_by_the_profile_for_it_and_refuses_what_needs_chat():
    with EngineServer(echo_request, endpoints=("/v1/completions", "/v1/models"), models=("base",)) as server:
        config = SweepConfig(engine=engine(server, "base", context_tokens=8192))
        planned = role_models(config)
        for _, profile, _ in planned.models.values():
            assert (profile.name, profile.form, profile.test_form) == ("tiny", "completion", "completion")
            assert profile.context_tokens == 8192
        why, note = planned.notes
        assert why == "base: profile `tiny` (`capable` needs chat)"
        assert note.endswith("base supports only completions, not chat; prompts use the completion format")
        (one,), notes = settle(drafts(config))
        assert one.of_trials("hc")["models"]["solver"] == one.models["solver"][2] and len(notes) == 2
        asks = {"solver.agent_style": "loop", "solver.testgen.style": "files", "solver.decompose": "model"}
        needing = [SweepConfig.model_validate(changed(config.model_dump(exclude_unset=True), {key: value}))
                   for key, value in asks.items()]  # fmt: skip
        for (key, value), asked in zip(asks.items(), needing, strict=True):
            with pytest.raises(ConfigError, match=rf"^{key}: {value} needs chat, but base .*: omit {key}, or"):
                settle(drafts(asked))
    with EngineServer(echo_request, endpoints=CHAT_ONLY, models=("base",)) as server:
        for asked in needing:
            assert settle(drafts(asked.model_copy(update={"engine": engine(server, "base", context_tokens=8192)})))


@pytest.mark.parametrize("tools", [False, True])
def test_a_plan_says_where_a_server_was_not_seen_to_call_the_tools_that_are_asked_for(tools):
    with EngineServer(echo_request, models=("m",), tools=tools) as server:
        config = SweepConfig(engine=engine(server, "m"), solver=SolverConfig(actions="calls"))
        _, notes = settle(drafts(config))
    assert any("m was not seen to answer with native tool calls" in note for note in notes) is not tools


@pytest.mark.parametrize("script", ["tests.fakes.scripts:nothing", "tests.fakes.nowhere:x", "tests.fakes.scripts",
                                    "tests.fakes.scripts:", "tests.fakes.scripts.echo"])  # fmt: skip
def test_a_plan_refuses_a_script_that_is_not_there(script):
    with pytest.raises(ConfigError, match=f"script '{script}': "):
        role_models(SweepConfig(engine=EngineConfig(kind="scripted", script=script)))


@pytest.mark.parametrize(("refused", "told"), [("min_p", ["other rejects min_p"]), ("repeat_penalty", [])],
                         ids=["a parameter", "one spelling of what another says"])  # fmt: skip
def test_a_plan_says_which_sampling_parameters_a_server_refuses(refused, told):
    def answer(body):
        if refused in body:
            raise Rejected(400, refused)
        return echo_request(body)

    with EngineServer(answer, models=("other",)) as server:
        why, *notes = role_models(SweepConfig(engine=engine(server, "other"))).notes
    assumed = "its context is assumed to have 16,384 tokens; the server does not report it: set engine.context_tokens"
    assert f"profile `capable` ({assumed})" in why
    assert len(notes) == len(told) and all(says in note for says, note in zip(told, notes, strict=True))


def test_a_plan_says_where_a_server_answers_to_a_name_that_it_does_not_list():
    with EngineServer(echo_request, models=("qwen-7b", "qwen-14b")) as server:
        right = role_models(SweepConfig(engine=engine(server, "qwen-7b"))).notes
        wrong = role_models(SweepConfig(engine=engine(server, "qwem-7b"))).notes
    assert len(right) == 1
    assert wrong[1:] == ("qwem-7b: the server answers to this name, but lists only qwen-7b, qwen-14b",)


def test_a_plan_for_a_server_that_is_not_there_is_refused_in_one_line_unless_no_agent_asks_a_model():
    config = EngineConfig(kind="openai", base_urls=("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"), model="x")
    with pytest.raises(ModelError, match=r"no model answers at http://127\.0\.0\.1:(9|10)/v1.*--base-url") as caught:
        role_models(SweepConfig(engine=config))
    assert "\n" not in str(caught.value)
    assert role_models(SweepConfig(engine=config, agents=("oracle", "nop"))).models == {}
    with pytest.raises(ConfigError, match="--base-url"):
        role_models(SweepConfig(engine=EngineConfig(kind="openai")))


async def test_a_trial_never_sends_completions_to_a_server_that_lost_them_since_the_plan():
    with EngineServer(echo_request, endpoints=CHAT_ONLY) as server:
        config, profile, digest = role_model(engine(server))
        endpoint = await Engine(config).start()
    setup = RoleSetup(engine=config, endpoints=(endpoint,), profile=profile, digest=digest)
    trials = Trials("t", None)
    await trials.arrange({"solver": setup}, {})
    with pytest.raises(EngineError, match=f"{NAME} no longer supports completions"):
        trials.role("solver", 0)
    chatting = setup.model_copy(update={"profile": usable(profile, Capabilities(completion=False))})
    await trials.arrange({"solver": chatting}, {})
    assert trials.role("solver", 0).profile.form == "chat"


async def test_harbors_trials_and_tools_that_ask_in_this_process_look_at_a_server_once():
    with EngineServer(echo_request) as server:
        config, looked = SweepConfig(engine=engine(server, "m")), {}
        models = (await asyncio.to_thread(role_models, config, looked)).models
        asked = len(server.bodies())
        async with answering(models, looked) as roles:
            assert asked > 1 and len(server.bodies()) == asked and roles["solver"].model
        trials = harbor_trial._Roles()
        (_, first), (_, second) = await asyncio.gather(
            *(trials.of(config, harbor_trial.Spent(SimpleNamespace())) for _ in "ab")
        )
        assert len(server.bodies()) == 2 * asked
        assert first["solver"].model is not second["solver"].model, "each trial counts what it has asked itself"


async def test_an_engine_without_a_plan_takes_its_profile_s_sampling():
    path = remote_profile_path("m")
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({"sampling": Sampling(top_k=20).model_dump()}))
    with EngineServer(echo_request) as server:
        endpoint = await Engine(engine(server, "m")).start()
    assert endpoint.capabilities["sampling"]["top_k"] == 20


def test_a_chat_only_server_s_bench_finds_its_knee(monkeypatch):
    monkeypatch.setattr(bench, "STEPS", (1,))
    monkeypatch.setattr(bench, "BEYOND", ())
    monkeypatch.setattr(bench, "LEVEL_SECONDS", 0.1)
    with EngineServer(lambda body: "one two", endpoints=CHAT_ONLY) as server:
        found = bench.bench_engine(engine(server, "m"), save=True)
        known = known_speed(engine(server, "m"))
        assert all("messages" in body for body in server.bodies()[-3:])
    assert found["knee"] == 1 and found["profile"]["form"] == "chat" and found["saved"] is None
    assert known is not None and known.knee == 1 and known.prompt_tokens_per_second


def test_an_engine_s_window_is_its_knee_where_nobody_set_one_and_the_plan_says_so():
    keep_speed(EngineConfig(parallel=3), Speed(knee=5, completion_tokens_per_second=5.0, measured="a day, 2 cores"))
    with EngineServer(echo_request, models=(NAME,)) as server:
        keep_speed(engine(server), Speed(knee=4, completion_tokens_per_second=5.0, measured="a day, 2 cores"))
        found = role_models(SweepConfig(engine=engine(server)))
        says = f"{NAME}: 4 parallel requests (by `engine bench`: a day, 2 cores)"
        assert found.models["solver"][0].parallel == 4 and found.notes[-1] == says
        found = role_models(SweepConfig(engine=engine(server, parallel=16)))
        assert found.models["solver"][0].parallel == 16 and len(found.notes) == 1
        both = engine(server).model_dump(include={"kind", "model"}) | {"base_urls": [server.base_url, "http://h/v1"]}
        assert known_speed(EngineConfig.model_validate(both)) == known_speed(engine(server))


def test_several_urls_are_as_many_replicas_and_a_plan_takes_what_all_of_them_can_do():
    with EngineServer(echo_request) as one, EngineServer(echo_request, endpoints=CHAT_ONLY, context=9000) as other:
        both = {"model": NAME, "base_urls": [one.base_url, other.base_url]}
        config, profile, digest = role_models(SweepConfig.model_validate({"engine": both})).models["solver"]
        assert (config.kind, config.replicas, profile.form) == ("openai", 2, "chat")
        assert [located(config, replica).urls for replica in (0, 1)] == [(one.base_url,), (other.base_url,)]
        assert digest != role_model(engine(one))[2]
    with EngineServer(echo_request, listed={"max_model_len": 30_000}) as one, EngineServer(echo_request) as silent:
        both = {"model": NAME, "base_urls": [one.base_url, silent.base_url]}
        _, profile, _ = role_models(SweepConfig.model_validate({"engine": both})).models["solver"]
        assert profile.context_tokens <= WHOLE_CONTEXT, "of a server that tells none no more is believed"


@pytest.mark.parametrize(("given", "says"), [
    ({"base_urls": ["http://a", "http://a"]}, "same URL twice"), ({"base_url": "http://a", "replicas": 2}, "list them"),
    ({"base_url": "http://a", "base_urls": ["http://b"]}, "not both"), ({"base_urls": ["http://u:p@a"]}, "api_key_env"),
    ({"command": "serve.py --port 8000"}, r"options of serve\.py: .*\{host\} and \{port\}"),
    ({"command": "vllm 'a"}, "No closing quotation"), ({"command": ""}, "empty command"),
])  # fmt: skip
def test_an_engine_that_cannot_be_is_refused(given, says):
    with pytest.raises(ValidationError, match=says):
        EngineConfig.model_validate(given)


def test_a_command_s_program_says_what_it_needs():
    assert EngineConfig(command="env A=1 /x/vllm --b").preset == "vllm" and EngineConfig(command="vllm").num_gpus == 1
    free = EngineConfig(command="x/vllm --host {host} --port {port}")
    assert (free.kind, free.preset, free.num_gpus, EngineConfig(gpus=2).num_gpus) == ("server", None, 0, 0)
    for kind, needs in (("server", r"engine\.command=vllm"), ("scripted", "--script MODULE:FUNCTION")):
        with pytest.raises(ConfigError, match=needs):
            role_model(EngineConfig(kind=kind))


def test_a_slow_engine_gets_the_time_that_its_measured_speed_asks_for():
    slow, models = EngineConfig(parallel=8), {"solver": (EngineConfig(), None, "m")}
    assert request_seconds(slow, 16_384) == REQUEST_SECONDS
    assert expected_seconds(1200, 0, models) == 1200 / FALLBACK_RATE
    keep_speed(slow, Speed(knee=4, completion_tokens_per_second=5.0, prompt_tokens_per_second=20.0))
    # An answer that fills the context, every slot busy: 16,384 tokens at 5/8 of a token a second, three times over.
    assert request_seconds(slow, 16_384) == pytest.approx(3 * 8 * 16_384 / 5)
    assert request_seconds(EngineConfig(request_sec=7), 16_384) == 7
    assert request_seconds(slow, 256) > REQUEST_SECONDS > request_seconds(slow, 64) - 1
    assert expected_seconds(1200, 0, models) == pytest.approx(1200 / 8)
    remember_rate("m", 60.0)
    assert expected_seconds(1200, 0, models) == 1200 / 60
