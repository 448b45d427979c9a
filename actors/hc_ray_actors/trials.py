"""Many trials as coroutines of one actor. A trial tells its submission and parks without a slot; ``resume`` goes on
with the bit. What a trial does stands in ``hc_ray.search``; here it only lives.

No call lasts as long as a trial: Ray keeps a fiber with a stack of 256 KiB for each call of an async actor until it
ends, which was 250 MiB for 1,000 trials in flight. What they come to is told in one stream with their events."""

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
"""Steps that are told at once, at most: a trial's outcome may take megabytes."""
SUITES = 128
"""Suites that a process keeps in memory, the last used: more than trials are under way. Older ones lie in the sweep
directory."""


class RoleSetup(Value):
    """How one role's model is reached."""

    engine: EngineConfig
    endpoints: tuple[Endpoint | None, ...]
    """A replica each; None for one that gets nothing new."""
    profile: Profile
    digest: str
    """Digest of model and profile, as in the trial's key."""

    @property
    def seeded(self) -> bool:
        """Every replica was seen to answer equal prompts with equal seeds equally."""
        return all(endpoint.capabilities.get("seed") for endpoint in self.endpoints if endpoint is not None)


class Step(Value):
    """What a trial came to: a submission to be judged, its end, or a failure outside the sandbox."""

    trial: str = ""
    submission: Submission | None = None
    outcome: TrialOutcome | None = None
    """All that the trial did; with a submission, up to it: should this process die, that is enough to commit it."""
    changed: dict[str, Any] = {}
    """Of an end after a submission, without an outcome: what is not as it was told with the submission."""
    fault: Fault | None = None
    """Of a failure."""


class _Running:
    def __init__(self) -> None:
        self.verdict: asyncio.Future[bool] | None = None
        self.task: asyncio.Task[None] | None = None
        self.so_far: TrialOutcome | None = None


class Trials(Addressee):
    """Runs trials on the models and sandboxes it was given. It knows no verifier."""

    def __init__(self, name: str, store_root: str | None, share: tuple[int, int] = (0, 1)) -> None:
        """``name`` begins the handles of its sandboxes. ``share``: its number among so many processes of a sweep's
        trials, which divide the engines' replicas."""
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
        """What the driver has not been told yet."""
        self._pressing = asyncio.Event()
        """Set while there is a step among it, and at the end."""

    async def arrange(self, roles: Mapping[str, RoleSetup], stations: Mapping[str, Station]) -> None:
        """From now on these engines and nodes are there. ``roles``: by the digest that a trial's key names for a role,
        since configs may have engines of their own."""
        if roles != self._roles:
            self._roles = dict(roles)
            for queue in self._queues.values():
                queue.shunned_until = 0.0  # who failed before may be another now
        self._place.arrange(stations)

    async def start(self, key: TrialKey, task: Task) -> None:
        """Begin a trial. It tells a step at its submissions and at its end. A run of it that somebody gave up ends."""
        if (before := self._running.get(key.name)) is not None and before.task is not None:
            before.task.cancel()
        running = self._running[key.name] = _Running()
        running.task = asyncio.ensure_future(self._live(key, task, running))

    async def resume(self, name: str, passed: bool | None) -> None:
        """Tell a parked trial its verdict's one bit, or that none could be had (None), and run it on."""
        running = self._running.get(name)
        if running is None or running.verdict is None or running.verdict.done():
            raise ActorError(f"trial {name} is not waiting for a verdict here: the process that ran it died")
        if passed is None:
            running.verdict.set_exception(VerifierError("no verdict could be had"))
        else:
            running.verdict.set_result(passed)

    async def alive(self) -> bool:
        return True

    async def fault(self) -> str | None:
        return None

    async def told(self, wait: float = 1.0) -> list[Event | Step]:
        """What happened since the last call, in its order. Events of the next ``wait`` seconds come together, since
        each call costs both sides milliseconds; steps come at once, with the events before them."""
        # Not ``wait_for``: until Python 3.12 it forgets a cancellation that comes together with the event.
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
        """Cancel every trial and close what they use."""
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
        """Nothing of a run that another one has replaced."""
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
            """A role, with its requests in its replicas' queues."""
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
            # Whatever escapes solve was seen outside the sandbox: the driver decides what becomes of the trial.
            self._tell(key, running, fault=fault_of(error))

    def _up(self, role: str) -> list[int]:
        """The replicas that are up, of this process's share if one of these is. Raises ``EngineError`` for none."""
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
        """Before a replica of a role's engine; roles that share it share its slots."""
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
        """Those of a replica's servers, for every role that asks them; none where other processes may ask them too."""
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
    """Raises ``ConfigError`` where this machine's skills are not those of the plan: its prompts would differ."""
    from hc_ray.agent.skills import prompts_of

    if key.solver.use_skills and prompts_of(key.solver) != key.prompts.get("solver"):
        raise ConfigError(
            "the skills on this machine differ from those the sweep was planned with (hc-ray skills list)"
        )


class _Recorder:
    """``ports.Events`` that stamps a trial's name and the time on what it is told."""

    def __init__(self, trials: Trials, name: str) -> None:
        self._trials, self._name = trials, name

    def emit(self, event: Event) -> None:
        self._trials.record(event.model_copy(update={"trial": self._name, "at": time.time()}))
