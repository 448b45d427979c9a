"""All agents ask the solver in one way: for the same candidate index, with the same task, config and seed, the requests
of ``raw``, ``best_of_n`` and ``hc`` are the same, byte by byte. What one of them gains is search, never phrasing."""

import hashlib
import itertools
import json
from typing import Any, get_args

import pytest

from hc_ray.domain.config import AgentName, Form, SolverConfig, TestgenConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.task import Copy, Environment, Task
from tests.fakes.trial import Bench

NEVER_SENT = {"purpose", "context"}
"""What of a prompt is for the journal and for reading the answer alone."""
FILES = {"words.csv": "word,count\nriver,3\n", "notes.txt": "Count each word once.\n"}
IMAGE = Environment(copies=(Copy(sources=tuple(FILES), destination="/app/"),),
                    files=tuple(f"/app/{name}" for name in FILES))  # fmt: skip
TASKS: dict[str, tuple[str, Environment]] = {
    "a function": ("Write `/app/double.py` with `def double(n: int) -> int`. `double(4)` returns `8`.", Environment()),
    "a script": ("Write the script `/app/run.sh`.\n\n```console\n$ sh run.sh 2\n4\n```\n", Environment()),
    "a file with inputs": ("From `/app/words.csv`, as `/app/notes.txt` says, make `/app/out.json`.", IMAGE),
    "no file": ("Make the tests in this folder pass. Mind what `notes.txt` says.", IMAGE),
}
FRESH, EMPTY = 10, (2, 4, 5)
"""Candidates, which ``hc`` asks for in one round and ``best_of_n`` in batches of another size, and which answers come
to nothing."""


async def asked(agent: AgentName, what: str, form: Form, *, seed: int = 3, **knobs: Any) -> list[str]:
    """What the solver's engine is sent for each candidate, in the order of their indexes."""
    numbers = itertools.count()

    def answer(prompt: Prompt) -> str:
        if prompt.role != "solver":
            return "assert double(3) == 6\n"
        number = next(numbers)
        return "" if number in EMPTY else f"    return n + {number}\n"  # never right, and each another one

    instruction, environment = TASKS[what]
    task = Task(name="t", digest=hashlib.sha256(what.encode()).hexdigest(), instruction=instruction,
                environment=environment)  # fmt: skip
    config = SolverConfig(hint="Be brief.", max_answer_tokens=60, max_turns=FRESH, samples=FRESH, samples_max=FRESH,
                          testgen=TestgenConfig(budget_tokens=400), **knobs)  # fmt: skip
    profile = Profile(form=form, stop={"chat": ("<end>",), "completion": ("\nprint",)}, temperature_best_single=0.2)
    bench = Bench(answer, task=task, profile=profile, files=FILES if environment.files else None, verdicts=(False,))
    await bench.solve(agent, config, tokens=60_000, seed=seed)
    prompts = [prompt for prompt in bench.prompts if prompt.role == "solver"]
    assert all(prompt.purpose == "candidate" for prompt in prompts)
    return [prompt.model_dump_json(exclude=NEVER_SENT) for prompt in prompts]


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize("what", TASKS)
async def test_every_agent_sends_the_same_request_for_the_same_candidate(what: str, form: Form) -> None:
    raw, best_of_n, hc = [await asked(agent, what, form) for agent in ("raw", "best_of_n", "hc")]
    assert len(raw) == 1 and len(best_of_n) == len(hc) == FRESH
    assert raw == hc[:1] and best_of_n == hc
    assert len(set(hc)) == FRESH, "each candidate is asked for in another way"
    assert all("river" in one for one in hc) == (what == "a file with inputs")
    assert all("Count each word once." in one for one in hc) == bool(TASKS[what][1].files)


async def test_every_agent_tells_the_same_skills_and_another_seed_asks_the_same_with_other_seeds():
    told = [await asked(agent, "a script", "chat", use_skills=True) for agent in ("raw", "best_of_n", "hc")]
    assert told[0] == told[2][:1] and told[1] == told[2] and all("set -eu" in one for one in told[2])
    first, second = [await asked("hc", "a function", "completion", seed=seed) for seed in (3, 4)]
    assert not set(first) & set(second)
    bare = [[json.loads(one) | {"seed": 0} for one in many] for many in (first, second)]
    assert bare[0] == bare[1]
