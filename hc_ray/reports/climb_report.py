"""The report of a climb's folder, finished or not: what was declared, proposed, decided and spent, from its records and
the sweeps below it. All figures come from tasks that the climb tuned on, and the report says so."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hc_ray.climb.climb import DECLARED, PROPOSERS
from hc_ray.climb.generation import SEEDS
from hc_ray.climb.proposals import Proposal, Record
from hc_ray.climb.race import ClimbConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.ports import Store
from hc_ray.domain.value import canonical_json, digest_of, flattened
from hc_ray.reports.audit_section import suite_quality
from hc_ray.reports.report import SCHEMA_VERSION, read_sweep, rows_of, stored_json, summarise_several
from hc_ray.statistics.estimators import wilson

Data = dict[str, Any]


def is_climb(store: Store) -> bool:
    """Whether a folder is a climb's, even if it was killed before it declared its terms."""
    return store.exists("settings.json") and not store.exists("sweep.json")


def summarise_climb(store: Store, below: Callable[[str], Store]) -> Data:
    """The data of ``report --json`` for a climb. ``below`` opens the store of a subfolder. Raises ``OutputError``."""
    settings, declared = stored_json(store, "settings.json"), stored_json(store, DECLARED)
    if declared is None:
        raise OutputError("this climb ended before it declared its terms; to start it: hc-ray climb --resume -o OUT")
    ended = stored_json(store, "climb.json")
    records = records_of(store)
    folders = (stored_json(store, "sweeps.json") or {}).values()
    stores = {name: found for name in folders if (found := below(f"sweeps/{name}")).exists("sweep.json")}
    names = _names(records, declared["start"]["solver"], stores)
    whole = summarise_several(stores, names=names) if stores else _NOTHING
    rows, terms = whole["trials"], ClimbConfig.model_validate(declared["config"], extra="ignore")
    tasks = max([whole["sweep"]["tasks"], *(len(read_sweep(one).get("tasks") or ()) for one in stores.values())])
    spent = sum(row["tokens"] or 0 for row in rows) + sum(record.proposal.tokens for record in records)
    incumbent = next((one.proposal.solver for one in reversed(records) if one.accepted and one.proposal.knob), None)
    champion = incumbent.model_dump(mode="json") if incumbent else declared["start"]["solver"]
    return {
        **whole,
        "schema_version": SCHEMA_VERSION,
        "comparisons": [], "compared": "", "criteria": [],
        "climb": {
            "dataset": settings["identity"].get("dataset"),
            "model": whole["sweep"]["model"],
            "says": f"tuned on {tasks} dev tasks",
            "terms": declared["config"],
            "declared": list(terms.says(tasks, PROPOSERS)) if tasks else [],
            "ended_by": ended["ended_by"] if ended else None,
            "champion": names.get(_solver(champion), "start"),
            "tasks": tasks,
            "tokens": spent,
            "bits": whole["bits"],
        },
        "generations": _generations(records, stores),
        "proposals": [proposal_of(record) for record in records],
        "proposers": proposers_of(records),
    }  # fmt: skip


_NOTHING: Data = {
    "sweep": {"id": "", "tasks": 0, "trials": 0, "model": None, "config": {}, "versions": {}, "configs": []},
    "configs": [], "trials": [], "self_to_blind": [], "by_testgen": [], "holdout_looks": None, "bits": 0,
}  # fmt: skip


def records_of(store: Store) -> list[Record]:
    """The climb's records in order. Raises ``OutputError`` for an invalid one."""
    found = []
    for path in store.list("climb"):
        if path != DECLARED and path.endswith(".json"):
            try:
                found.append(Record.model_validate_json(store.read(path), extra="ignore"))
            except ValueError as error:
                raise OutputError(f"{path} is not a record of a climb: {str(error).splitlines()[0]}") from None
    return sorted(found, key=lambda record: (record.proposal.generation, record.proposal.place))


def _solver(solver: Mapping[str, Any]) -> str:
    """Digest of a solver's settings."""
    return digest_of(flattened({"solver": solver}))


def _names(records: Sequence[Record], start: Mapping[str, Any], stores: Mapping[str, Store]) -> dict[str, str]:
    """Names of configs, by solver digest and by config hash: each has the name of the proposal that first suggested
    it."""
    found = {_solver(start): "start"}
    for one in (record.proposal for record in records):
        found.setdefault(_solver(one.solver.model_dump(mode="json")), _label(one))
    for store in stores.values():
        for config in read_sweep(store)["configs"]:
            solver = {key: value for key, value in config["settings"].items() if key.startswith("solver.")}
            if name := found.get(digest_of(solver)):
                found[config["hash"]] = name
    return found


def _generations(records: Sequence[Record], stores: Mapping[str, Store]) -> list[Data]:
    """The incumbent of each generation, with its results in that generation."""
    audited = {number: quality for number, quality in map(_audited, stores.values()) if quality}
    found, incumbent = [], "start"
    for number in dict.fromkeys(record.proposal.generation for record in records):
        own = [record for record in records if record.proposal.generation == number]
        control = next((record.decision.control for record in own if record.decision), None)
        accepted = next((record for record in own if record.accepted), None)
        quality = audited.get(number) or {}
        found.append({
            "generation": number,
            "incumbent": incumbent,
            "pass_rate": control.pass_rate if control else None,
            "trials": control.trials if control else 0,
            "means": control.means if control else {},
            "validity": quality.get("validity"), "fault_detection": quality.get("fault_detection"),
            "accepted": _label(accepted.proposal) if accepted else None,
            "tokens": next((record.decision.tokens for record in own if record.decision), None),
        })  # fmt: skip
        incumbent = next(
            (_label(one.proposal) for one in reversed(own) if one.accepted and one.proposal.knob), incumbent
        )
    return found


def _label(one: Proposal) -> str:
    return f"{one.generation}-{one.place} {one.proposer}"


def _audited(store: Store) -> tuple[int, dict[str, Any]]:
    """The generation of a sweep, and the audit's figures for its admitted tests; empty without an audit."""
    audit = suite_quality(store)
    if audit is None:
        return 0, {}
    return max((row["seed"] for row in rows_of(store)), default=0) // SEEDS % 1000, audit["whole"]["admitted"]


def proposal_of(record: Record) -> Data:
    """A proposal with its decision, without the whole config and answer, which its file holds."""
    none: Data = {"verdict": None, "why": None, "evidence": []}
    proposal = record.proposal.model_dump(mode="json", exclude={"solver", "answer"})
    decision = record.decision and record.decision.model_dump(mode="json", exclude={"control", "own", "tokens"})
    return {"file": record.path, **proposal, **(decision or none)}


def proposers_of(records: Sequence[Record]) -> dict[str, Data]:
    """Proposer → how often it won; a win of "no change" is a false alarm."""
    found: dict[str, Data] = {}
    for name in dict.fromkeys(record.proposal.proposer for record in records):
        own = [record for record in records if record.proposal.proposer == name]
        verdicts = [record.decision.verdict for record in own if record.decision]
        accepted, decided = verdicts.count("accepted"), verdicts.count("accepted") + verdicts.count("reverted")
        confirmed = sum(any(look.stage == "confirm" for look in record.decision.evidence) for record in own
                        if record.decision and record.decision.verdict != "undecided")  # fmt: skip
        found[name] = {
            "proposed": len(own), "refused": verdicts.count("refused"),
            "undecided": len(own) - decided - verdicts.count("refused"), "decided": decided,
            "confirmations": confirmed, "accepted": accepted,
            "of_decided": wilson(accepted, decided).model_dump(),
            "of_confirmations": wilson(accepted, confirmed).model_dump(),
        }  # fmt: skip
    return found


def change_of(proposal: Mapping[str, Any], *, most: int = 1000) -> str:
    """``samples: 4 → 6``, each value cut to ``most`` characters; ``none`` if the incumbent runs again."""
    if not proposal["knob"]:
        return "none"
    texts = [canonical_json(proposal[side]) for side in ("before", "after")]
    before, after = (text if len(text) <= most else f"{text[: most - 1]}…" for text in texts)
    return f"{proposal['knob'].removeprefix('solver.')}: {before} → {after}"
