"""A world that costs nothing: an engine that answers at once by prompt and seed, sandboxes that run nothing, verifiers
that say no. What remains of a sweep is orchestration."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.agent.role import RoleModel
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.domain.config import BudgetConfig, EngineConfig, SolverConfig, SweepConfig, TestgenConfig
from hc_ray.domain.ports import Difference, Events, ExecResult, Judge
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.waiting import Once
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.search.orchestrate import solve
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.node_probe import Slots, report
from hc_ray_actors.ray_cluster import RayCluster
from hc_ray_actors.sandboxes import Sandboxes
from tests.fakes.grading import PlainPlace
from tests.fakes.tars import make_tar
from tests.fakes.trial import INSTRUCTION, PROFILE

LIMITS = dict.fromkeys(("memory", "disk", "pids", "network", "cpu"), "null")
FAILED = Verdict(passed=False, cause="failed", reward=0.0)
_TAR = make_tar({"app/double.py": ""})


def answers(prompt: Prompt) -> str:
    """Another function for every seed, never the same twice; a tester knows a few calls."""
    if prompt.role == "tester":
        return "3) == 6\nassert double(0) == 0\nassert double(7) == 14\nassert double(1) == 2\n"
    return f"\n    return n * 2 + {prompt.seed}\n"


def settings(candidates: int) -> tuple[SolverConfig, BudgetConfig]:
    """Trials of ``candidates`` candidates each, which nothing but their turns ends."""
    rounds = 10
    each = max(1, candidates // rounds)
    solver = SolverConfig(samples=each, samples_max=each, max_rounds=rounds, max_turns=candidates, patience=10_000,
                          testgen=TestgenConfig(rounds=1, budget_tokens=2000))  # fmt: skip
    return solver, BudgetConfig(tokens=10**9)


class NullSandbox:
    """``ports.Sandbox`` whose tests pass or fail by the digest of what was put into it; one always fails, so that no
    search is complete."""

    workdir = "/app"

    def __init__(self) -> None:
        self._plan: Mapping[str, Any] = {}
        self._digest = 0

    async def exec(self, command: Sequence[str], **options: Any) -> ExecResult:
        return ExecResult(exit_code=0, stdout=self._report() if self._plan else b"", stderr=b"")

    async def put(self, files: Mapping[str, bytes], *, mode: int = 0o644) -> None:
        for path, data in files.items():
            if path.endswith("/tests.json"):
                self._plan = json.loads(data)
            else:
                self._digest = int.from_bytes(hashlib.sha256(data).digest()[:16], "big")

    def _report(self) -> bytes:
        lines = []
        for number, test in enumerate(self._plan["tests"]):
            bits = self._digest >> (2 * (number % 60))
            passed = self._digest and number and bits & 1
            outcome = "pass" if passed else "fail" if self._digest else "error"
            observed = str(bits & 3) if self._digest else None
            line = json.dumps({"id": test["id"], "outcome": outcome, "observed": observed, "detail": "null"})
            lines += [line] * self._plan["repeats"]
        return "\n".join(lines).encode()

    async def put_tar(self, tar: bytes) -> None:
        """Nothing to unpack to."""

    async def get(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return None

    async def difference(self, *, limit: int = 64 << 20) -> Difference:
        return Difference(changed=("/app/double.py",), deleted=(), tar=_TAR)

    async def fork(self, name: str) -> "NullSandbox":
        return NullSandbox()

    async def close(self) -> None:
        """Nothing to close."""


class NullPlace(PlainPlace):
    """``ports.SandboxPlace``."""

    made = []

    async def create(self, task: Task, name: str, *, network: bool = False) -> NullSandbox:
        return NullSandbox()

    def limits(self) -> Mapping[str, str]:
        return LIMITS


class NullSandboxes(Sandboxes):
    """The actor as it is, over the null place."""

    def __init__(self, backend: str, public_root: str | None, slots: int | None) -> None:
        import asyncio

        self._place = NullPlace()  # type: ignore[assignment]
        self._slots, self._builds, self._backend = Slots(8), asyncio.Semaphore(4), backend
        self._open, self._making, self._waiting = {}, {}, set()

    async def missing(self, digests: Sequence[str]) -> list[str]:
        return []

    async def fault(self) -> str | None:
        return None


def _null(**answers: Any) -> type:
    """An actor whose methods give these answers, whatever they are asked; a function is called for each."""

    def method(answer: Any) -> Any:
        async def says(self: Any, *_: Any) -> Any:
            return answer() if callable(answer) else answer

        return says

    return type("Null", (), {"__init__": lambda self, *_: None, **{name: method(one) for name, one in answers.items()}})


_Engine = _null(start=Endpoint(base_urls=(), model="null"), alive=True, fault=None, stop=None)
_Verifiers = _null(control=Verdict(passed=True, cause="passed", reward=1.0), grade=FAILED, leaks=list, missing=list,
                   prepare=None, alive=True, fault=None, report=report, stop=None)  # fmt: skip


def played(cls: type) -> type:
    """Who plays an actor: the real one for trials, null for the rest."""
    null = {"Engine": _Engine, "Sandboxes": NullSandboxes, "Verifiers": _Verifiers}.get(cls.__name__)
    return type(cls.__name__, (null,), {}) if null else cls


class NullRay(RayCluster):
    """The null actors in processes of their own."""

    def spawn(self, cls: type, *args: Any, **where: Any) -> Any:
        return super().spawn(played(cls), *args, **where)


def task_of(number: int) -> Task:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return Task(name=f"t{number}", digest=digest, instruction=INSTRUCTION, environment=Environment())


async def trial(task: Task, candidates: int, judge: Judge, events: Events) -> TrialOutcome:
    """One trial, alone in this process."""
    solver, budget = settings(candidates)
    role = RoleModel(model=ScriptedModel(answers), profile=PROFILE, digest="null")
    return await solve(
        task, agent="hc", config=solver, budget=budget, seed=0, roles={"solver": role, "tester": role},
        place=NullPlace(), name=task.name, suites=Once(), judge=judge, events=events,
    )  # fmt: skip


def config_of(out: Path, candidates: int, **more: Any) -> SweepConfig:
    solver, budget = settings(candidates)
    engine = EngineConfig(kind="scripted", script="tests.bench.null_world:answers")
    plain = {"dataset": "null", "agents": ("hc",), "engine": engine, "solver": solver, "budget": budget,
             "mlflow_uri": "none", "out": str(out), "concurrency": 4}  # fmt: skip
    return SweepConfig.model_validate({**plain, **more})


def plan_of(out: Path, trials: int, candidates: int, at_once: int = 4) -> Plan:
    """A sweep of ``hc`` with so many trials, each of a task of its own."""
    config = config_of(out, candidates, concurrency=at_once)
    solver, budget, engine = config.solver, config.budget, config.engine
    taken = tuple(task_of(number) for number in range(trials))
    keys = tuple(
        TrialKey(task=task.name, task_digest=task.digest, agent="hc", solver=solver, budget=budget, seed=0,
                 models={"solver": "null", "tester": "null"}, prompts={}, sandbox="null", grading="isolated")
        for task in taken
    )  # fmt: skip
    models = {"solver": (engine, PROFILE, "null"), "tester": (engine, PROFILE, "null")}
    return Plan(
        out=str(out), config=config, dataset=str(out), public_root=str(out / "public"), sealed_root=str(out / "sealed"),
        sealed_digest="null", taken=taken, refused=(), trials=keys, models=models, sandbox="null",
        sandbox_why="nothing runs", place="laptop",
    )  # fmt: skip
