"""Runs many trials as coroutines of one actor. A trial reports its submission and parks without a slot; ``resume``
continues it with the bit. The trial's logic is in ``hc_ray.search``.

No call lasts as long as a trial: Ray keeps a fiber with a 256 KiB stack for each running call of an async actor, which
took 250 MiB for 1,000 trials. Results come in one stream with the events."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hc_ray.agent.environment_probe import Looks
from hc_ray.agent.role import RoleModel, together
from hc_ray.domain.candidate import Submission
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ActorError, ConfigError, EngineError, VerifierError
from hc_ray.domain.events import Event
from hc_ray.domain.ports import Capabilities, Model
from hc_ray.domain.profile import Profile, usable
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Task
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.value import Value, canonical_json
from hc_ray.domain.waiting import Once
from hc_ray.engines.speed import request_seconds
from hc_ray.machine.sealed_box import Addressee
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray_actors.asking.activity import Activities, EngineQueue, TrialActivity
from hc_ray_actors.asking.meter import AnswerShelf, Meter, Replica
from hc_ray_actors.attempts import Fault, fault_of
from hc_ray_actors.engine import Endpoint, open_model, seats_of
from hc_ray_actors.remote_place import RemotePlace, Station

if TYPE_CHECKING:
    from hc_ray.engines.http import Seats


STEPS = 16
"""The most steps in one answer, since a trial's outcome may take megabytes."""
SUITES = 128
"""The most recently used suites that a process keeps in memory, more than it runs trials. Older ones are in the sweep
directory."""


class RoleSetup(Value):
    """How to reach one role's model."""

    engine: EngineConfig
    endpoints: tuple[Endpoint | None, ...]
    """One per replica; None for one that gets no new requests."""
    profile: Profile
    digest: str
    """Digest of model and profile, as in the trial's key."""

    @property
    def seeded(self) -> bool:
        """Whether every replica was seen to give equal answers to equal prompts with equal seeds."""
        return all(endpoint.capabilities.get("seed") for endpoint in self.endpoints if endpoint is not None)


class Step(Value):
    """A step of a trial: a submission to grade, its end, or a failure outside the sandbox."""

    trial: str = ""
    submission: Submission | None = None
    outcome: TrialOutcome | None = None
    """Everything that the trial did, with a submission up to that point: enough to commit it if this process dies."""
    changed: dict[str, Any] = {}
    """For an end without an outcome: the changes to the outcome that came with the submission."""
    fault: Fault | None = None
    """Set for a failure."""


class _Running:
    def __init__(self) -> None:
        self.verdict: asyncio.Future[bool] | None = None
        self.task: asyncio.Task[None] | None = None
        self.so_far: TrialOutcome | None = None


class Trials(Addressee):
    """Runs trials on given models and sandboxes. Knows no verifier."""

    def __init__(self, name: str, store_root: str | None, share: tuple[int, int] = (0, 1)) -> None:
        """``name``: prefix of its sandbox handles. ``share``: (index, number) of a sweep's trial processes, which
        divide the engines' replicas."""
        self._roles: dict[str, RoleSetup] = {}
        self._place = RemotePlace({}, name)
        self._store_root, self._share = store_root, share
        self._suites = Once[Suite](SUITES, self._stored_suite)
        self._answers = AnswerShelf()
        self._looks = Looks(self._place)
        self._models: dict[tuple[Any, ...], Model] = {}
        self._seats: dict[tuple[str, ...], Seats] = {}
        self._activities = Activities(self.record)
        self._queues: dict[tuple[EngineConfig, int], EngineQueue] = {}
        self._running: dict[str, _Running] = {}
        self._told: deque[Event | Step] = deque()
        """Events and steps that the driver has not received yet."""
        self._pressing = asyncio.Event()
        """Set while these include a step, and at the end."""

    async def arrange(self, roles: Mapping[str, RoleSetup], stations: Mapping[str, Station]) -> None:
        """Set the available engines and nodes. ``roles``: by the digest that trial keys name for a role, since configs
        may have engines of their own."""
        if roles != self._roles:
            self._roles = dict(roles)
            for queue in self._queues.values():
                queue.shunned_until = 0.0  # the failed replica may have been replaced
        self._place.arrange(stations)

    async def start(self, key: TrialKey, task: Task) -> None:
        """Start a trial, which reports a step at each submission and at its end. Ends an earlier, abandoned run of
        it."""
        if (before := self._running.get(key.name)) is not None and before.task is not None:
            before.task.cancel()
        running = self._running[key.name] = _Running()
        running.task = asyncio.ensure_future(self._live(key, task, running))

    async def resume(self, name: str, passed: bool | None) -> None:
        """Continue a parked trial with its verdict's bit, or with None if there is no verdict."""
        running = self._running.get(name)
        if running is None or running.verdict is None or running.verdict.done():
            raise ActorError(f"trial {name} is not waiting for a verdict here: the process that ran it died")
        if passed is None:
            running.verdict.set_exception(VerifierError("no verdict could be obtained"))
        else:
            running.verdict.set_result(passed)

    async def alive(self) -> bool:
        return True

    async def fault(self) -> str | None:
        return None

    async def told(self, wait: float = 1.0) -> list[Event | Step]:
        """Everything since the last call, in order. Events of the next ``wait`` seconds come together, since each call
        costs both sides milliseconds; a step returns at once, with the events before it."""
        # Not ``wait_for``: before Python 3.12 it loses a cancellation that coincides with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._pressing.wait()
        taken, steps = [], 0
        while self._told and steps < STEPS:
            taken.append(self._told.popleft())
            steps += isinstance(taken[-1], Step)
        if not self._told:
            self._pressing.clear()
        return taken

    async def stop(self) -> None:
        """Cancel every trial and close its resources."""
        tasks = [running.task for running in self._running.values() if running.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._activities.settle(last=True)
        for model in self._models.values():
            if close := getattr(model, "aclose", None):
                await close()
        await self._place.close()
        self._pressing.set()

    def _tell(self, key: TrialKey, running: _Running, **step: Any) -> None:
        """Report a step, unless another run has replaced this one."""
        if self._running.get(key.name) is running:
            self._told.append(Step(trial=key.name, **step))
            self._pressing.set()
            if "submission" not in step:
                del self._running[key.name]

    async def _live(self, key: TrialKey, task: Task, running: _Running) -> None:
        from hc_ray.search.orchestrate import solve

        async def judge(submission: Submission) -> bool:
            running.verdict = asyncio.get_running_loop().create_future()
            self._tell(key, running, submission=submission, outcome=running.so_far)
            with activity.at("verdict"):
                return await running.verdict

        def hand_in(so_far: TrialOutcome) -> None:
            running.so_far = so_far

        def metered(name: str, activity: TrialActivity) -> RoleModel:
            """A role whose requests go through its replicas' queues."""
            meter = Meter(lambda: self._replicas(name), activity, task.digest, lambda: self._shelf(name))
            return replace(self.role(name, self._up(name)[0]), model=meter)

        try:
            _has_the_planned_skills(key)
            with self._activities.trial() as activity:
                outcome = await solve(
                    task,
                    agent=key.agent,
                    config=key.solver,
                    budget=key.budget,
                    seed=key.seed,
                    roles=together({role: metered(name, activity) for role, name in key.models.items()}),
                    place=self._place.of(activity),
                    name=key.name,
                    suites=self._suites,
                    looks=self._looks,
                    judge=judge,
                    before_judging=hand_in,
                    queued=activity.queued,
                    events=_Recorder(self, key.name),
                )
            if running.so_far is None:
                self._tell(key, running, outcome=outcome)
            else:
                self._tell(key, running, changed=outcome.changed_since(running.so_far))
        except asyncio.CancelledError:
            self._tell(key, running, fault=Fault(kind="infrastructure", type="Cancelled", text="interrupted"))
            raise
        except Exception as error:
            # Any exception from ``solve`` is a failure outside the sandbox: the driver decides about the trial.
            self._tell(key, running, fault=fault_of(error))

    def _up(self, role: str) -> list[int]:
        """The replicas that are up, from this process's share if possible. Raises ``EngineError`` if there are none."""
        setup, (number, count) = self._roles[role], self._share
        up = [index for index, endpoint in enumerate(setup.endpoints) if endpoint is not None]
        if not up:
            raise EngineError(f"no replica of {setup.engine.label} is up")
        return [index for index in up if index % count == number] or up

    def _replicas(self, role: str) -> list[Replica]:
        return [(self.role(role, index).model, self._queue(role, index)) for index in self._up(role)]

    def _shelf(self, role: str) -> tuple[AnswerShelf, str] | None:
        return (self._answers, role) if self._roles[role].seeded else None

    def _queue(self, role: str, index: int) -> EngineQueue:
        """The queue of a replica of a role's engine; roles with the same engine share it."""
        engine = self._roles[role].engine
        if (engine, index) not in self._queues:
            name = engine.label if engine.replicas == 1 else f"{engine.label} {index + 1}"
            self._queues[engine, index] = self._activities.engine(name, engine.parallel)
        return self._queues[engine, index]

    def role(self, role: str, index: int) -> RoleModel:
        setup = self._roles[role]
        endpoint = setup.endpoints[index]
        if endpoint is None:
            raise EngineError(f"replica {index + 1} of {setup.engine.label} is not up")
        sampled = canonical_json(endpoint.capabilities.get("sampling"))
        key = (endpoint.base_urls, endpoint.key_name, endpoint.model, setup.engine.parallel, sampled)
        if usable(setup.profile, Capabilities.model_validate(endpoint.capabilities)) != setup.profile:
            raise EngineError(f"{setup.engine.label} no longer supports completions, which the sweep was planned with")
        if key not in self._models:
            timeout = request_seconds(setup.engine, setup.profile.context_tokens)
            self._models[key] = open_model(
                setup.engine, endpoint, timeout=timeout, seats=self._seats_of(setup, endpoint)
            )
        return RoleModel(model=self._models[key], profile=setup.profile, digest=setup.digest, label=setup.engine.label)

    def _seats_of(self, setup: RoleSetup, endpoint: Endpoint) -> "Seats | None":
        """The seats of a replica's servers, shared by all roles; None if other processes may use them too."""
        if self._share[1] > 1:
            return None
        return self._seats.setdefault(endpoint.base_urls, seats_of(setup.engine, endpoint))

    def _stored_suite(self, key: str) -> Suite | None:
        if self._store_root is None:
            return None
        from hc_ray.stores.sweep_directory import SweepStore

        stored = SweepStore(self._store_root).find(f"suites/{key}.json")
        return Suite.model_validate_json(stored) if stored is not None else None

    def record(self, event: Event) -> None:
        self._told.append(event if event.at else event.model_copy(update={"at": time.time()}))


def _has_the_planned_skills(key: TrialKey) -> None:
    """Raise ``ConfigError`` if this machine's skills differ from the plan's, since the prompts would differ."""
    from hc_ray.agent.skills import prompts_of

    if key.solver.use_skills and prompts_of(key.solver) != key.prompts.get("solver"):
        raise ConfigError(
            "the skills on this machine differ from those the sweep was planned with (hc-ray skills list)"
        )


class _Recorder:
    """``ports.Events`` that adds the trial's name and the time to each event."""

    def __init__(self, trials: Trials, name: str) -> None:
        self._trials, self._name = trials, name

    def emit(self, event: Event) -> None:
        self._trials.record(event.model_copy(update={"trial": self._name, "at": time.time()}))
