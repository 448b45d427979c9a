"""Trials of ``plays_mistakes`` in a world of files in memory: the search, the lineages, the gate and the selection are
real; sandboxes, what solutions do and the verdicts are not. A solution leaves its name; a check is read, not run; the
reference passes and no mistake does. For figures over more trials than real sandboxes allow."""

import io
import json
from typing import Any

from hc_ray.agent.role import RoleModel
from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import BudgetConfig, SolverConfig
from hc_ray.domain.events import Event
from hc_ray.domain.filetree import unpack
from hc_ray.domain.profile import Profile
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import digest_of, readable_json
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.search.orchestrate import solve
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray.stores.sweep_directory import parquet
from hc_ray_actors.driver.trial_files import MATRIX_COLUMNS, matrix_rows
from hc_ray_actors.suite_shelf import SuiteShelf
from tests.fakes import plays_mistakes, sweepdir
from tests.fakes.listeners import Watcher
from tests.fakes.plays_mistakes import MARK, RIGHT
from tests.fakes.sandbox import FakePlace, FakeSandbox
from tests.fakes.sweepdir import MemoryStore


def played(sandbox: FakeSandbox, command: tuple[str, ...], options: dict[str, Any]) -> bytes | None:
    """What a command does: a lineage's, a look for files, a run of the suite."""
    if command[-1].endswith("/tests.json"):
        return _suite(sandbox, json.loads(sandbox.files[command[-1]]))
    if command[:2] == ("sh", "-c"):
        if command[2].startswith("for path"):
            return "".join(f"{path}\n" for path in command[4:] if path not in sandbox.files).encode()
        return None
    try:
        order = json.loads(options["stdin"])["command"]
    except (ValueError, KeyError):
        return None
    solution = order.rpartition("echo ")[2].partition(" ")[0]
    sandbox.files |= {MARK: f"{solution}\n".encode(), "/app/result.txt": f"made by {solution}\n".encode()}
    return json.dumps({"exit_code": 0, "head": "", "tail": "", "size": 0, "path": "", "lines": 0, "stopped": "",
                       "cwd": sandbox.workdir}).encode()  # fmt: skip


def _suite(sandbox: FakeSandbox, plan: dict[str, Any]) -> bytes:
    def read(path: str) -> io.StringIO:
        if path not in sandbox.files:
            raise FileNotFoundError(path)
        return io.StringIO(sandbox.files[path].decode())

    lines = []
    for test in plan["tests"]:
        names: dict[str, Any] = {"open": read}
        try:
            exec(test["input"], names)
            names[test["subject"]["function"]]()
            outcome = "pass"
        except (AssertionError, FileNotFoundError):
            outcome = "fail"
        lines += [json.dumps({"id": test["id"], "outcome": outcome, "observed": outcome})] * plan["repeats"]
    return "\n".join(lines).encode()


async def trial(store: MemoryStore, name: str, instruction: str, quality: str, seed: int, config: SolverConfig,
                budget: BudgetConfig) -> None:  # fmt: skip
    """One trial of ``hc``, stored with the verdict of every state."""
    task = Task(name=name, digest=digest_of(instruction), instruction=instruction,
                environment=Environment(dockerfile="FROM x\nWORKDIR /app\n", base="x"))  # fmt: skip

    async def judge(submission: Submission) -> bool:
        found = {one.path: one.data for one in unpack(submission.tar).members}
        return found.get(MARK, b"").decode().strip() == RIGHT

    model, log = ScriptedModel(getattr(plays_mistakes, quality)), Watcher()
    role = RoleModel(model, Profile(context_tokens=65_536), f"{quality} {name}")
    outcome = await solve(task, agent="hc", config=config, budget=budget, seed=seed, roles={"solver": role},
                          place=FakePlace(played), name=f"{name}-{seed}", suites=SuiteShelf(), judge=judge,
                          events=log)  # fmt: skip
    _store(store, task, seed, config, outcome, log.events)


def _store(
    store: MemoryStore, task: Task, seed: int, config: SolverConfig, outcome: TrialOutcome, events: list[Event]
) -> None:
    chosen = outcome.selection.model_dump(mode="json") if outcome.selection else None
    name = sweepdir.add_trial(store, task.name, "hc", outcome.bits[0], seed=seed, metadata={"selection": chosen})
    folder = f"trials/{name}"
    store.write(f"{folder}/config.json", readable_json({"solver": config.model_dump(mode="json")}))
    store.write(f"{folder}/agent/candidates.json",
                readable_json([one.model_dump(mode="json") for one in outcome.candidates]))  # fmt: skip
    if outcome.matrix is not None:
        store.write(f"{folder}/agent/matrix.parquet", parquet(matrix_rows(outcome), MATRIX_COLUMNS))
        store.write(f"{folder}/agent/tests.json",
                    readable_json([one.model_dump(mode="json") for one in outcome.matrix_tests]))  # fmt: skip
    told = [json.dumps({**one.model_dump(mode="json"), "trial": name}) for one in events]
    store.write(f"events/{len(store.list('events')):06d}.jsonl", "\n".join(told).encode())
    audit = json.loads(store.files.get("audit.json", b'{"pools": []}'))
    audit["pools"].append({"trial": name, "candidates": [_graded(one) for one in outcome.candidates]})
    store.write("audit.json", readable_json(audit))


def _graded(one: Candidate) -> dict[str, Any]:
    return {"id": one.id, "passed": one.files.get(MARK, "").strip() == RIGHT, "tokens": one.completion_tokens}
