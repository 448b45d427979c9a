"""An ``Evaluator`` that runs sweeps: every evaluation is a sweep directory below the climb's own."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hc_ray.climb.evaluation import Cell, Outcome
from hc_ray.climb.generation import CONTROL
from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.errors import InfrastructureError
from hc_ray.domain.ports import Events
from hc_ray.domain.trial import TrialResult
from hc_ray.domain.value import digest_of, flattened, readable_json
from hc_ray.reports.report import finished, result_of, row_of, stored_json
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import varied

SWEEPS = "sweeps.json"
"""The file with the digest of an evaluation's cells → its folder below ``sweeps``."""
STAGES = {"confirm": "confirmation"}
Watch = Callable[[int, str], AbstractContextManager[Events]]
"""(number of trials, purpose) → a listener for the sweep."""


class SweepEvaluator:
    """Runs cells as configs of sweeps that share everything else with one plan."""

    def __init__(self, plan: sweep.Plan, out: str, *, cluster: Cluster, watch: Watch) -> None:
        """``plan``: the first incumbent's; ``out``: the climb's folder."""
        self._plan, self._out, self._store = plan, out, SweepStore(out)
        self._cluster, self._watch = cluster, watch
        self._incumbent: SolverConfig = plan.config.solver
        self._names: dict[str, str] = stored_json(self._store, SWEEPS) or {}

    def evaluate(self, cells: Sequence[Cell], *, tokens: int) -> list[list[Outcome]]:
        """Run the cells as one sweep, or continue an interrupted one. Raises ``KeyboardInterrupt`` if the user ended
        it, ``InfrastructureError`` if it could not continue."""
        self._incumbent = next((cell.solver for cell in cells if cell.arm == CONTROL), self._incumbent)
        plan = self._prepared(cells)
        store = SweepStore(plan.out)
        if {key.name for key in plan.trials} - _there(store, plan):
            left = tokens - sum(one.tokens for one in _outcomes(store, plan).values())
            if left > 0:
                self._run(plan, left, _purpose(cells))
        known = _outcomes(store, plan)
        asked = [[(one.solver.hash, task, seed) for task in one.tasks for seed in one.seeds] for one in cells]
        return [[known[key] for key in keys if key in known] for keys in asked]

    def _prepared(self, cells: Sequence[Cell]) -> sweep.Plan:
        """The plan: each distinct solver is a config, with the seeds of all its cells."""
        named: dict[str, str] = {}
        configs: list[dict[str, Any]] = []
        seeds: dict[str, list[int]] = {}
        before = flattened(self._incumbent.model_dump(mode="json"))
        for cell in cells:
            name = named.setdefault(cell.solver.hash, cell.arm)
            if name not in seeds:
                after = flattened(cell.solver.model_dump(mode="json"))
                changes = {f"solver.{key}": value for key, value in after.items() if before.get(key) != value}
                configs.append({"name": name, **changes})
            seeds[name] = sorted({*seeds.get(name, ()), *cell.seeds})
        out = f"{self._out}/sweeps/{self._name(cells)}"
        shared = self._plan.config.model_dump(mode="json")
        own = {"solver": self._incumbent.model_dump(mode="json"), "configs": configs, "out": out,
               "seeds": max(map(len, seeds.values())), "sandbox": self._plan.sandbox}  # fmt: skip
        config, resume = SweepConfig.model_validate(shared | own), SweepStore(out).exists("sweep.json")
        return varied(self._plan, config, seeds, resume=resume)

    def _name(self, cells: Sequence[Cell]) -> str:
        """The folder of these cells' sweep, the same for every call."""
        digest = digest_of([cell.model_dump(mode="json", exclude={"generation"}) for cell in cells])
        if digest not in self._names:
            self._names[digest] = f"{len(self._names) + 1:03d}-{cells[0].stage}"
            self._store.write(SWEEPS, readable_json(self._names))
        return self._names[digest]

    def _run(self, plan: sweep.Plan, tokens: int, purpose: str) -> None:
        with self._watch(len(plan.trials) - plan.done, purpose) as events:
            ended = sweep.run(plan, events=events, max_tokens=tokens, cluster=self._cluster)
        if ended.signalled:
            raise KeyboardInterrupt
        if ended.stopped:
            raise InfrastructureError(f"{'; '.join(ended.problems)}; to continue, add --resume")


def _purpose(cells: Sequence[Cell]) -> str:
    """The purpose for display: generation, stage and proposers."""
    arms = dict.fromkeys(f"the incumbent ({CONTROL})" if cell.arm == CONTROL else cell.arm for cell in cells)
    stage = STAGES.get(cells[0].stage, cells[0].stage)
    return f"generation {cells[0].generation}, {stage}: {', '.join(arms)}"


def _there(store: SweepStore, plan: sweep.Plan) -> set[str]:
    return set(finished(store)) - set(plan.found.torn)


def _outcomes(store: SweepStore, plan: sweep.Plan) -> dict[tuple[str, str, int], Outcome]:
    """A sweep's outcomes so far, by solver config hash, task and seed."""
    there = _there(store, plan)
    return {
        (key.solver.hash, key.task, key.seed): outcome_of(result_of(store, key.name))
        for key in plan.trials
        if key.name in there
    }


def outcome_of(result: TrialResult) -> Outcome:
    """The part of a trial's result that a climb uses."""
    row, made = row_of(result), result.agent_result.metadata.get("candidates") or []

    def share(field: str) -> float | None:
        return sum(bool(one.get(field)) for one in made) / len(made) if made else None

    same = {name: row[name] for name in ("task", "seed", "passed", "self_pass", "weak_suite", "turns")}
    return Outcome(**same, tokens=row["tokens"] or 0, duplicates=share("duplicate_of"), malformed=share("malformed"),
                   stop=row["stop_reason"] or "")  # fmt: skip
