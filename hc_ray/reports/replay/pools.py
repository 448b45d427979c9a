"""Replays selectors offline: what each would have submitted, from the stored candidates and pass matrices of a sweep
directory, with the blind bit if an audit has graded every candidate.

At equal tokens, a pool is cut where its running sum exceeds what ``hc`` used on the same task and seed. A replay asks
no model and runs nothing; it keeps each trial's stopping point. Ties break as in ``select``: larger agreement of
behaviour, then fewer tests in error, then the earlier candidate. Pools of the style ``loop`` are decided as in the
trial: by the suite or by agreement on content, round by round (``rounds``)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SELECTORS as SELECTORS
from hc_ray.domain.config import SelectorName
from hc_ray.domain.errors import OutputError
from hc_ray.domain.ports import Store
from hc_ray.domain.suite import Cell, PassMatrix, SelfTest
from hc_ray.domain.value import Value
from hc_ray.reports.audit_section import AUDIT_FILE
from hc_ray.reports.replay.rounds import Round, decided, first_weights, read_rounds
from hc_ray.reports.report import rows_of, stored_json, stored_rows
from hc_ray.search.pool import by_content
from hc_ray.search.selection import select

SOLVING = ("raw", "best_of_n", "hc")
V = TypeVar("V", bound=Value)


class Pool(Value):
    """One trial's candidates in slot order, with the data to choose among them."""

    trial: str
    task: str
    agent: str
    config_hash: str
    split: str = "dev"
    seed: int = 0
    tokens: int | None = None
    """All tokens of the trial, its suite's included."""
    candidates: tuple[Candidate, ...] = ()
    verdicts: dict[str, bool | None] = {}
    """Candidate → its blind verdict, for graded ones."""
    matrix: PassMatrix | None = None
    tests: tuple[SelfTest, ...] = ()
    """The matrix's columns; in the style ``loop`` with their weights before any dispute."""
    loop: bool = False
    """Whether the candidates are the submitted states of the style ``loop``."""
    rounds: tuple[Round, ...] = ()
    """Style ``loop``: the result of each round."""
    winners: dict[int, str] = {}
    """Round → digest of the state that won its comparison."""
    chosen: str | None = None
    """The submitted candidate; None for the untouched workspace."""
    passed: bool | None = None
    """The trial's first verdict."""
    untouched: bool | None = None
    """The verdict of the untouched workspace, which is submitted if there is no candidate; None if unknown."""

    @property
    def key(self) -> tuple[str, int]:
        return self.task, self.seed

    @property
    def graded(self) -> bool:
        """Whether every candidate has a verdict; partial verdicts would favour some selectors."""
        return bool(self.candidates) and all(self.verdicts.get(one.id) is not None for one in self.candidates)

    @property
    def bits(self) -> tuple[bool, ...]:
        """The verdicts of a graded pool."""
        return tuple(bool(self.verdicts[one.id]) for one in self.candidates)

    @property
    def sampled_tokens(self) -> int:
        return sum(map(_tokens, self.candidates))

    def verdict(self, chosen: str | None) -> bool | None:
        """The blind verdict of a submission; None if it is unknown."""
        return self.untouched if chosen is None else self.verdicts.get(chosen)

    def only(self, names: Collection[str]) -> "Pool":
        """The pool reduced to these candidates."""
        matrix = self.matrix
        if matrix is not None:
            standing = tuple(name for name in matrix.candidates if name in names)
            matrix = PassMatrix(
                candidates=standing, tests=matrix.tests, cells=tuple(matrix.row(name) for name in standing)
            )
        kept = tuple(one for one in self.candidates if one.id in names)
        return self.model_copy(update={"candidates": kept, "matrix": matrix})


def cut(pool: Pool, tokens: int | None) -> Pool:
    """The longest prefix of a pool within ``tokens``, but at least its first candidate; the whole pool for None."""
    if tokens is None:
        return pool
    kept: list[str] = []
    spent = 0
    for one in pool.candidates:
        spent += _tokens(one)
        if kept and spent > tokens:
            break
        kept.append(one.id)
    return pool.only(kept)


def choose(pool: Pool, selector: SelectorName) -> str | None:
    """The candidate that ``selector`` chooses; if no test ran on any, the first that wrote a file."""
    if pool.loop and pool.candidates and pool.agent == "hc":
        return decided(pool.candidates, pool.matrix, pool.tests, pool.rounds, selector, pool.winners)
    if pool.loop and pool.candidates:
        return by_content(pool.candidates).chosen
    if pool.matrix is not None and pool.matrix.candidates:
        return select(pool.matrix, selector, tests=pool.tests).chosen
    return next((one.id for one in pool.candidates if one.files), None)


def read_pools(store: Store) -> tuple[Pool, ...]:
    """A pool for every scored trial of a solving agent, sorted by agent, task and seed."""
    graded, rounds = _graded(store), read_rounds(store)
    pools = [
        _pool(store, row, graded.get(row["trial"], {}), rounds.get(row["trial"], ()))
        for row in rows_of(store)
        if row["agent"] in SOLVING and row["passed"] is not None
    ]
    return tuple(sorted(pools, key=lambda pool: (SOLVING.index(pool.agent), pool.config_hash, pool.task, pool.seed)))


def _graded(store: Store) -> dict[str, dict[str, bool | None]]:
    """Trial → candidate → verdict, from the audit; empty without an audit and on holdout."""
    audit = stored_json(store, AUDIT_FILE) or {}
    return {pool["trial"]: {one["id"]: one["passed"] for one in pool["candidates"]} for pool in audit.get("pools", ())}


def _pool(store: Store, row: Mapping[str, Any], graded: Mapping[str, bool | None], rounds: Sequence[Round]) -> Pool:
    folder = f"trials/{row['trial']}"
    chosen = row["chosen"]
    candidates = _stored(store, f"{folder}/agent/candidates.json", Candidate)
    known = dict(graded)
    if len(row["bits"]) == 1 and chosen is not None:
        # Without an audit, only the submission and candidates with the same files have a known verdict.
        files = next((one.files for one in candidates if one.id == chosen), None)
        for one in candidates:
            if one.files == files and known.get(one.id) is None:
                known[one.id] = row["passed"]
    untouched = next((known[one.id] for one in candidates if not one.files and known.get(one.id) is not None), None)
    if untouched is None and chosen is None and len(row["bits"]) == 1:
        untouched = row["passed"]
    matrix, tests = _matrix(store, folder, tuple(one.id for one in candidates))
    solver = (stored_json(store, f"{folder}/config.json") or {}).get("solver", {})
    of_loop: dict[str, Any] = {}
    if solver.get("agent_style") == "loop":
        tests, digests = first_weights(tests, rounds), {one.id: one.digest for one in candidates}
        winners = {one.number: digests[one.picked[-1] or ""] for one in rounds if len(one.picked) > 1}
        of_loop = {"loop": True, "rounds": tuple(rounds), "winners": winners}
    told = {name: row[name] for name in ("trial", "task", "agent", "config_hash", "split", "seed", "tokens", "passed")}
    return Pool(**told, candidates=tuple(candidates), verdicts=known, matrix=matrix, tests=tests, chosen=chosen,
                untouched=untouched, **of_loop)  # fmt: skip


def _stored(store: Store, path: str, kind: type[V]) -> tuple[V, ...]:
    """The values in one of a trial's files, unknown fields of other versions dropped. Raises ``OutputError``."""
    try:
        return tuple(kind.model_validate(one, extra="ignore") for one in stored_json(store, path) or ())
    except ValidationError as error:
        lacks = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        raise OutputError(f"{path} cannot be read: another version of hc-ray wrote it ({lacks})") from None


def _tokens(one: Candidate) -> int:
    return one.prompt_tokens + one.completion_tokens


def _matrix(store: Store, folder: str, order: Sequence[str]) -> tuple[PassMatrix | None, tuple[SelfTest, ...]]:
    """The stored matrix in slot order, and its columns."""
    if (rows := stored_rows(store, f"{folder}/agent/matrix.parquet")) is None:
        return None, ()
    tests = _stored(store, f"{folder}/agent/tests.json", SelfTest)
    cells = {
        (row["candidate"], row["test"]): Cell(outcome=row["outcome"], observed=row["observed"], detail=row["detail"])
        for row in rows
    }
    ran = {row["candidate"] for row in rows}
    names = tuple(name for name in order if name in ran)
    matrix = PassMatrix(
        candidates=names,
        tests=tuple(test.id for test in tests),
        cells=tuple(tuple(cells[name, test.id] for test in tests) for name in names),
    )
    return matrix, tests
