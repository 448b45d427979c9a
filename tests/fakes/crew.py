"""A sweep without models, sandboxes and tests: actors whose every answer a test writes down beforehand, and which can
die."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from hc_ray.blind.grading.verdict import Verdict
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import EngineConfig, RetryConfig, SweepConfig
from hc_ray.domain.errors import ActorError, SandboxError, VerifierError
from hc_ray.domain.profile import Profile
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import TrialKey
from hc_ray.machine.sealed_box import Addressee
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.attempts import fault_of
from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER, Member
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.node_probe import NodeReport, report
from hc_ray_actors.trials import Step
from tests.fakes.listeners import Watcher

Script = Callable[..., Any]
"""Plays one method of an actor: it raises, answers None for the usual answer, or answers something else; it may be
async."""


class Stage:
    """What happens in a sweep, and what did: ``scripts`` by method, ``calls`` as (method, task or trial)."""

    def __init__(self, **scripts: Script) -> None:
        self.scripts = scripts
        self.calls: list[tuple[str, str]] = []
        self.made: list[str] = []
        """Actors in the order in which they were started."""
        self.stood: dict[str, list[str | None]] = {}
        """The nodes that they were put on, by kind; None: wherever Ray likes."""
        self.living: dict[str, list[_Actor]] = {}
        self.nodes = ["here"]

    def count(self, method: str, of: str | None = None) -> int:
        return sum(one == method and of in (None, name) for one, name in self.calls)

    own: Mapping[str, type["_Actor"]] = {}
    """Actors of a kind that a test plays by a class of its own."""

    # ``cluster.Cluster``

    where = "in-process"
    here = "the driver's node"

    def members(self) -> list[Member]:
        slots = {SANDBOX: 2.0, VERIFIER: 2.0, ENGINE: 4.0}
        return [Member(id=node, name=node, slots=slots) for node in self.nodes]

    def free(self, resource: str) -> dict[str, float]:
        return dict.fromkeys(self.nodes, 4.0)

    def holders(self) -> list[str]:
        return []

    def processes(self) -> set[int]:
        return set()

    def put(self, value: Any) -> Any:
        return value

    def spawn(self, cls: type, *args: Any, **where: Any) -> Any:
        actor = {**_KINDS, **self.own}[cls.__name__](self, where.get("node"))
        self.made.append(cls.__name__)
        self.stood.setdefault(cls.__name__, []).append(where.get("node"))
        self.living.setdefault(cls.__name__, []).append(actor)
        return actor

    def kill(self, actor: "_Actor") -> None:
        actor.dead = True

    def die(self, kind: str) -> None:
        """The youngest actor of a kind is gone, as after SIGKILL."""
        self.living[kind][-1].dead = True

    def die_once(self, kind: str, method: str, fault: Exception | None = None) -> list[str]:
        """The first call of a method ends the youngest actor of a kind, and may raise. Answers whom that met."""
        met: list[str] = []

        def play(name: str) -> None:
            if not met:
                met.append(name)
                self.die(kind)
                if fault is not None:
                    raise fault

        self.scripts[method] = play
        return met


class _Actor(Addressee):
    def __init__(self, stage: Stage, node: str | None = None) -> None:
        self.stage, self.node, self.dead = stage, node, False
        self.hung = False
        """It answers nothing until it is ended."""

    async def play(self, method: str, name: str, usual: Any) -> Any:
        if self.dead:
            raise ActorError(f"the process that answers {method} is gone")
        self.stage.calls.append((method, name))
        script = self.stage.scripts.get(method)
        answer = script(name) if script else None
        if hasattr(answer, "__await__"):
            answer = await answer
        await self.wakes()
        if self.dead:
            raise ActorError(f"the process that answers {method} is gone")
        return usual if answer is None else answer

    async def wakes(self) -> None:
        while self.hung and not self.dead:
            await asyncio.sleep(0.01)

    async def alive(self) -> bool:
        return bool(await self.play("alive", type(self).__name__, True))

    async def fault(self) -> str | None:
        return await self.play("fault", type(self).__name__, None)

    async def missing(self, digests: Any) -> list[str]:
        return []

    async def keep_from(self, away: Any) -> None:
        await self.play("keep_from", " ".join(away), None)

    async def report(self) -> NodeReport:
        return await self.play("report", type(self).__name__, report())

    async def prepare(self, task: Task) -> None:
        await self.play("prepare", task.name, None)

    async def stop(self) -> None:
        await self.play("stop", "", None)


class _Engine(_Actor):
    async def start(self) -> Endpoint:
        return await self.play("engine", "", Endpoint(base_urls=(), model="fake"))


class _Sandboxes(_Actor):
    async def image(self, task: Task) -> None:
        """Its backend has none."""

    async def limits(self) -> dict[str, str]:
        return {"memory": "fake"}

    async def clear(self, living: Any) -> None:
        await self.play("clear", "", None)


class _Verifiers(_Actor):
    async def control(self, task: Task) -> Verdict:
        return await self.play("control", task.name, verdict(True))

    async def reference(self, task: Task, keep_output: bool) -> Submission:
        return await self.play("reference", task.name, submission(task, "reference"))

    async def grade(
        self, task: Task, handed_in: Submission | None, keep_output: bool, reference: bool = False
    ) -> Verdict:
        return await self.play("grade", task.name, verdict(True))

    async def leaks(self, blobs: Any) -> list[str]:
        return await self.play("leaks", "", [])


class _Trials(_Actor):
    def __init__(self, stage: Stage, node: str | None = None) -> None:
        super().__init__(stage, node)
        self.parked: set[str] = set()
        self.stations: Mapping[str, Any] | None = None
        self.said: list[Any] = []
        self.working: set[asyncio.Future[None]] = set()

    async def start(self, key: Any, task: Task) -> None:
        self.say(key.name, self.solve(key, task))

    async def resume(self, name: str, passed: bool | None) -> None:
        if name not in self.parked:
            raise ActorError("no trial of that name waits here")
        self.parked.discard(name)
        self.say(name, self.go_on(name, passed))

    def say(self, name: str, work: Awaitable[Step]) -> None:
        """What the work comes to is told, unless the actor dies of it."""

        async def told() -> None:
            with contextlib.suppress(ActorError):
                step = await work
                self.said.append(step.model_copy(update={"trial": name}))

        self.working.add(asyncio.ensure_future(told()))

    async def told(self, wait: float = 1.0) -> list[Any]:
        await asyncio.sleep(min(wait, 0.005))
        await self.wakes()
        if self.dead:
            raise ActorError("the process that tells of trials is gone")
        said, self.said = self.said, []
        return said

    async def solve(self, key: Any, task: Task) -> Step:
        if self.stations is None:
            return Step(fault=fault_of(KeyError("nobody has told it of engines and nodes")))
        if all(task.digest in station.lacks for station in self.stations.values()):
            return Step(fault=fault_of(SandboxError("no node can make a sandbox")))
        try:
            step: Step = await self.play("solve", task.name, None)
        except ActorError:
            raise
        except Exception as fault:
            return Step(fault=fault_of(fault))
        self.parked.add(key.name)
        made = submission(task, key.name)
        if task.grading == "shared":
            made = made.model_copy(update={"living": "here the ticket of a sandbox"})
        return step or Step(submission=made, outcome=outcome())

    async def go_on(self, name: str, passed: bool | None) -> Step:
        if passed is None:
            await self.play("fail", name, None)
            return Step(fault=fault_of(VerifierError("no verdict could be obtained")))
        step: Step = await self.play("resume", name, None)
        return step or Step(outcome=outcome().model_copy(update={"bits": (passed,)}))

    async def arrange(self, roles: Mapping[str, Any], stations: Mapping[str, Any]) -> None:
        up = [endpoint for setup in roles.values() for endpoint in setup.endpoints if endpoint]
        await self.play("arrange", f"{len(up)} engines, {len(stations)} nodes", None)
        self.stations = stations


class _Tracker(_Actor):
    async def prepare(self, task: Task | None = None) -> None:
        await self.play("prepare", "", None)

    async def export(self, summary: dict[str, Any], status: str) -> str:
        return await self.play("export", f"{status} {summary['sweep']['trials']}", "the run")


_KINDS: dict[str, type[_Actor]] = {
    "Engine": _Engine, "Sandboxes": _Sandboxes, "Verifiers": _Verifiers, "Trials": _Trials, "Tracker": _Tracker,
}  # fmt: skip


class Lagging(Stage):
    """A cluster that sees only after three looks that a process has ended."""

    looks = 0

    def free(self, resource: str) -> dict[str, float]:
        ended = any(actor.dead for actors in self.living.values() for actor in actors)
        self.looks += ended
        return {} if ended and self.looks <= 3 else super().free(resource)


def verdict(passed: bool | None, cause: Any = None) -> Verdict:
    return Verdict(passed=passed, cause=cause or ("passed" if passed else "failed"), reward=float(bool(passed)))


def submission(task: Task, trial: str) -> Submission:
    tar = f"{task.name} of {trial}".encode()
    digest = hashlib.sha256(tar).hexdigest()
    return Submission(id=trial, trial=trial, task_digest=task.digest, tar=tar, digest=digest)


def outcome() -> TrialOutcome:
    return TrialOutcome(
        instruction="do it", turns=1, prompt_tokens=30, completion_tokens=12, stop_reason="single sample"
    )


QUICK = RetryConfig(attempts=3, backoff_sec=0.01, outage_sec=0.05)


def plan_of(out: Path, tasks: int = 2, *, retries: RetryConfig = QUICK, shared: bool = False, **settings: Any) -> Plan:
    """A plan of ``raw`` trials (or those of ``agents``) over tasks ``t0``, ``t1`` …, with what an earlier start left in
    ``out`` taken into account."""
    from hc_ray_actors.driver.resumption import reconcile

    engine = EngineConfig(kind="scripted", script="nowhere:nothing")
    given = {"agents": ("raw",), "concurrency": 1, "mlflow_uri": "none", **settings}
    config = SweepConfig(dataset="nowhere", engine=engine, out=str(out), retries=retries, **given)
    bare = {"instruction": "do it", "environment": Environment(), "grading": "shared" if shared else "isolated"}
    taken = [Task(name=f"t{n}", digest=f"{n}" * 64, **bare) for n in range(tasks)]
    keys = [
        TrialKey(
            task=task.name, task_digest=task.digest, agent=agent, solver=config.solver, seed=seed,
            models={} if agent in ("oracle", "nop") else {"solver": "m"}, prompts={"solver": "p"}, sandbox="bwrap",
            grading="isolated",
        )
        for seed in range(config.seeds) for task in taken for agent in config.agents
    ]  # fmt: skip
    names = {key.name for key in keys}
    found = reconcile(str(out), config, "s", (out / "sweep.json").exists(), names)
    return Plan(
        out=str(out), config=config, dataset=str(out), public_root=str(out / "public"), sealed_root=str(out / "sealed"),
        sealed_digest="s", taken=tuple(taken), refused=(), trials=tuple(keys), found=found, notes=found.notes,
        models={"solver": (engine, Profile(), "m")}, sandbox="bwrap", sandbox_why="fake", place="laptop",
    )  # fmt: skip


def run(plan: Plan, stage: Stage) -> tuple[sweep.SweepSummary, Watcher]:
    watcher = Watcher()
    return sweep.run(plan, events=watcher, cluster=stage), watcher


def results_of(out: Path) -> dict[str, dict[str, Any]]:
    """By task name."""
    found = [json.loads(path.read_text()) for path in out.glob("trials/*/result.json")]
    return {result["task_name"]: result for result in found}


def attempts_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    return result["agent_result"]["metadata"]["failed_attempts"]


def failing(fault: Exception, times: int = 1000) -> Any:
    """Raises so often for the task ``t0``, and then lets things be."""
    left = [times]

    def play(name: str) -> None:
        if name == "t0" and left[0]:
            left[0] -= 1
            raise fault

    return play
