"""In which form a model is best asked: what counts as right, when the default stays, and what a profile then says."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from hc_ray.agent.actions import TOOLS, Action
from hc_ray.agent.asking_forms import FormFigure, chosen, load_forms, measure
from hc_ray.cli.app import app
from hc_ray.domain.config import EngineConfig, SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.profile import Profile, usable
from hc_ray.domain.prompt import Completion, ToolCall
from hc_ray.engines.catalogue import remote_profile_path, resolve_remote, save_profile
from hc_ray.engines.profiles import of_model, own_settings, shipped
from hc_ray_actors.jobs import bench
from hc_ray_actors.role_models import role_models
from tests.fakes.engine_server import EngineServer
from tests.fakes.folder_place import FolderPlace

ACTIONS = {one.name: one for one in load_forms()}
ONCE = SolverConfig(temperatures=(0.3,))


def sh(body, seconds=None):
    return Action(name="sh", body=body + "\n", seconds=seconds)


def write(path, body):
    return Action(name="write", argument=path, body=body)


def edit(path, old, new):
    return Action(name="edit", argument=path, body=f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n")


NOTES = """say "yes", not 'yes'
the variable $HOME and the command `date` stand here as they are
a backslash \\ and two: \\\\
100% done; {braces} & <angles>
"""
RIGHT = {
    "list a folder": (sh("ls parts"),),
    "write quotes": (write("notes.txt", NOTES),),
    "write a fence": (write("HOWTO.md", "# How to build\n\n```sh\nmake all\n```\n"),),
    "edit one line": (edit("settings.ini", "[upload]\nretries = 2\n", "[upload]\nretries = 5\n"),),
    "edit a function": (edit("prices.py", "    return tax\n", "    return net + tax\n"),),
    "a long command": (sh("sh slow.sh", 300),),
    "several actions": (write("tally.py", "print(len(open('words.txt').readlines()))\n"), sh("python3 tally.py")),
    "submit": (Action(name="submit"),),
}


def fenced(actions):
    blocks = []
    for one in actions:
        limit = f" timeout={one.seconds:g}" if one.seconds else ""
        blocks.append(f"````{one.name} {one.argument}{limit}\n{one.body}````")
    return "I act.\n\n" + "\n\n".join(blocks)


def called(actions):
    calls = []
    for i, one in enumerate(actions):
        tool = next(tool for tool in TOOLS if tool.name == one.name)
        given = {"path": one.argument, "timeout": one.seconds, next(reversed(tool.parameters), ""): one.body}
        given = {name: value for name, value in given.items() if name in tool.parameters and value is not None}
        calls.append(ToolCall(id=f"c{i}", name=one.name, arguments=json.dumps(given)))
    return tuple(calls)


def item_of(text):
    return next(name for name, one in ACTIONS.items() if one.instruction.strip() in text)


class Plays:
    """Answers each form from a table of its own; an answer costs 10 tokens."""

    def __init__(self, fence, call):
        self.fence, self.call = fence, call
        self.finish = "stop"

    async def complete(self, prompt):
        name = item_of(prompt.messages[-1].content)
        said = {"prompt_tokens": 7, "completion_tokens": 3, "finish_reason": self.finish}
        if prompt.tools:
            return Completion.model_validate({"text": "", "tool_calls": called(self.call.get(name, ())), **said})
        acts = self.fence.get(name)
        return Completion.model_validate({"text": fenced(acts) if acts else "I would look first.", **said})

    async def count_tokens(self, text):
        return len(text)


async def played(model, *names):
    items = [ACTIONS[name] for name in names or ACTIONS]
    forms = ("fenced", "calls")
    found = await measure(model, forms, items, FolderPlace(quick=True), ONCE, 500)
    return {one.form: one for one in found}


async def test_every_situation_can_be_done_in_both_forms():
    found = await played(Plays(RIGHT, RIGHT))
    for one in found.values():
        assert (one.answers, one.read, one.right) == (8, 8, 8), one.shares
        assert one.tokens == 80


async def test_what_cannot_be_read_was_cut_or_does_something_else_is_told_apart():
    odd = {
        "submit": (sh("true"), Action(name="submit"), Action(name="submit")),
        "a long command": (sh("sh slow.sh"),),
        "edit one line": (edit("settings.ini", "retries = 2\n", "retries = 5\n"),),
        "list a folder": (*RIGHT["list a folder"], Action(name="submit")),
    }
    found = await played(Plays(odd, {}), "submit", "a long command", "edit one line", "list a folder")
    assert (found["fenced"].read, found["fenced"].right) == (4, 1)
    assert found["fenced"].shares == {
        "submit": (1.0,), "a long command": (0.0,), "edit one line": (0.0,), "list a folder": (0.0,)
    }  # fmt: skip
    assert (found["calls"].answers, found["calls"].read, found["calls"].tokens) == (4, 0, 40)
    model = Plays(RIGHT, RIGHT)
    model.finish = "length"
    found = await played(model, "list a folder")
    assert found["fenced"].read == found["calls"].read == 0


def figures(**right):
    return [
        FormFigure(form=form, answers=8, read=8, right=int(sum(shares)), tokens=80,
                   shares={f"s{i}": (share,) * 3 for i, share in enumerate(shares)})
        for form, shares in right.items()
    ]  # fmt: skip


def test_another_form_is_taken_where_it_is_right_far_more_often_than_chance_could_make_it():
    form, difference = chosen(figures(fenced=[1, 1, 1, 0, 1, 0, 1, 1], calls=[1, 1, 1, 1, 1, 1, 1, 1]), "fenced")
    assert form == "fenced" and difference.delta == 0.25 and difference.low is not None
    assert chosen(figures(fenced=[0] * 8, calls=[0] * 8), "fenced")[0] == "fenced"
    assert chosen(figures(fenced=[1] * 8), "fenced")[1].delta is None
    bad, good = [0] * 7 + [1], [1] * 8
    assert chosen(figures(fenced=bad, calls=good), "fenced")[0] == "calls"
    assert chosen(figures(fenced=bad, calls=good), "calls")[0] == "calls"
    assert chosen(figures(fenced=good, calls=bad), "fenced")[0] == "fenced"


def test_native_tool_calls_are_planned_only_where_a_server_has_them_and_over_the_shipped_profile():
    own = Profile(name="capable", settings={"solver.actions": "calls"}, measured="today")
    whole, short = of_model(own, 32_768), of_model(own, 8192)
    assert whole.settings == {**shipped("capable").settings, "solver.actions": "calls"}
    assert short.settings["solver.max_answer_tokens"] == 2048 and short.settings["solver.actions"] == "calls"
    assert own_settings(whole) == own_settings(short) == own.settings
    assert of_model(own, 2048) == shipped("tiny")  # measured with room that it has no more
    assert of_model(Profile(), 32_768).settings == {}
    own = Profile(settings={"solver.actions": "calls"})
    assert usable(own, Capabilities(tools=True)) == own
    assert usable(own, Capabilities(tools=False)).settings["solver.actions"] == "fenced"


@pytest.fixture
def short(home, monkeypatch):
    """A bench of few actions, in a folder."""
    monkeypatch.setattr(bench, "_place", lambda: FolderPlace(quick=True))
    few = tuple(ACTIONS.values())[:6]  # fewer could show no difference
    monkeypatch.setattr("hc_ray.agent.asking_forms.load_forms", lambda: few)


def engine_of(server):
    return EngineConfig(kind="openai", base_url=server.base_url, model="fake")


class CallsWell(EngineServer):
    """Right wherever it may call tools, and talks where it may not."""

    def _reply(self, method, path, body):
        status, data = super()._reply(method, path, body)
        asked = "\n".join(str(one["content"]) for one in body.get("messages", ()))
        if body.get("tools") and any(one.instruction.strip() in asked for one in ACTIONS.values()):
            calls = [{"id": one.id, "function": {"name": one.name, "arguments": one.arguments}}
                     for one in called(RIGHT[item_of(asked)])]  # fmt: skip
            data["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": calls}
        return status, data


@pytest.mark.slow
def test_the_command_finds_that_a_model_calls_tools_better_saves_it_and_the_plan_says_so(short):
    with CallsWell(lambda body: "I would look first.", tools=True, listed={"max_model_len": 16_384}) as server:
        flags = ["--engine", "openai", "--base-url", server.base_url, "--model", "fake"]
        done = CliRunner().invoke(app, ["engine", "bench", "--profile", "--save", *flags], catch_exceptions=False)
        notes = role_models(SweepConfig(engine=engine_of(server))).notes
    assert "\nsolver.actions: calls\n" in done.stdout and "testgen" not in done.stdout
    assert ["calls", "18", "18", "18"] in [line.split()[:4] for line in done.stdout.splitlines()]
    kept = yaml.safe_load(remote_profile_path("fake").read_text())
    assert kept["name"] == "capable" and kept["settings"] == {"solver.actions": "calls"}
    assert "actions calls 18/18" in kept["measured"]
    assert notes[0] == "fake: profile `capable` (measured for this model; unless set otherwise solver.actions: calls)"


@pytest.mark.slow
def test_a_bench_that_finds_no_difference_keeps_the_default_and_what_was_measured_before(short):
    save_profile(resolve_remote("fake"), Profile(name="capable", measured="before", temperature_best_single=0.3))
    with EngineServer(lambda body: "nothing", listed={"max_model_len": 16_384, "id": "fake"}) as server:
        found = bench.bench_engine(engine_of(server), forms=True, save=True)
    assert found["profile"]["settings"] == shipped("capable").settings
    assert found["settings"] == {"solver.actions": "fenced"}
    kept = resolve_remote("fake").profile
    assert kept.settings == {} and kept.temperature_best_single == 0.3 and kept.measured.startswith("before; ")


def test_what_cannot_be_measured_or_kept_is_refused(short):
    with EngineServer(lambda body: "nothing", endpoints=("/v1/completions", "/v1/models")) as server:
        for engine, more, says in (
            (engine_of(server), {"forms": True}, "not support chat"), (EngineConfig(), {"save": True}, "shipped file"),
            (EngineConfig(kind="scripted", script="a:b"), {}, "nothing to measure"),
        ):  # fmt: skip
            with pytest.raises(ConfigError, match=says):
                bench.bench_engine(engine, **more)
