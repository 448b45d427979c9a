"""The subjects of an audit in a sweep directory: its frozen suites, and its trials' candidates."""

import base64
import json
from collections import defaultdict
from collections.abc import Mapping

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.suite import Suite
from hc_ray.domain.task import Task
from hc_ray.domain.trial import TrialResult
from hc_ray.domain.value import Value, digest_of
from hc_ray.reports.report import finished, result_of
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver.trial_files import DIFFERENCES
from hc_ray_actors.verifiers import audit as figures
from hc_ray_actors.verifiers import exposure


class Subject(Value):
    """One task, with everything to measure."""

    task: Task
    suites: tuple[Suite, ...] = ()
    candidates: dict[str, exposure.State] = {}
    """End states by the digests of their files, each once, whichever trials produced it."""


class AuditedTrial(Value):
    """One trial, with its candidates by the digests of their files."""

    name: str
    task: str
    seed: int
    passed: bool | None
    verdicts: int
    chosen: str | None
    """Id of the candidate submitted last."""
    candidates: tuple[tuple[str, str], ...] = ()
    """(id, digest of its files), in slot order; an answer without files has the digest of the empty set."""


class Audit(Value):
    """An audit that is ready to run."""

    out: str
    split: str
    backend: str
    sealed_root: str
    home: str
    """The folder with the dataset's split and ledger."""
    subjects: tuple[Subject, ...]
    trials: tuple[AuditedTrial, ...]
    gone: int
    """Tasks of the sweep that changed, or are no longer there: they are left out."""
    tests_changed: bool
    """The hidden tests have changed since they graded the sweep."""


class Outcome(Value):
    """The result of an audit."""

    evidence: tuple[figures.Evidence, ...]
    verdicts: dict[str, dict[str, bool | None]]
    """Task → digest of a candidate's files → its blind verdict; includes the untouched workspace."""
    lost: int
    """Number of end states that infrastructure failures prevented from being measured."""


NO_FILES = digest_of({})
"""The digest of a candidate without files, which submits the untouched workspace."""


def read_subjects(store: SweepStore, tasks: Mapping[str, Task]) -> tuple[tuple[Subject, ...], tuple[AuditedTrial, ...]]:
    """The subjects among ``tasks`` (by public digest) that occur in the sweep, and its trials."""
    suites: dict[str, list[Suite]] = defaultdict(list)
    for path in store.list("suites"):
        if path.endswith(".json"):
            suite = Suite.model_validate_json(store.read(path), extra="ignore")
            suites[suite.task_digest].append(suite)
    candidates: dict[str, dict[str, exposure.State]] = defaultdict(dict)
    trials: list[AuditedTrial] = []
    for name in finished(store):
        result = result_of(store, name)
        if result.task_checksum not in tasks:
            continue
        trial, states = _trial(store, name, result)
        candidates[result.task_checksum] |= states
        trials.append(trial)
    digests = sorted({*suites, *candidates} & tasks.keys(), key=lambda digest: tasks[digest].name)
    return tuple(
        Subject(task=tasks[digest], suites=tuple(suites[digest]), candidates=candidates[digest]) for digest in digests
    ), tuple(trials)


def _trial(store: SweepStore, name: str, result: TrialResult) -> tuple[AuditedTrial, dict[str, exposure.State]]:
    """A trial, and its candidates' end states by digest. A state that is not pure text, and whose difference was not
    stored, cannot be restored and is left out."""
    made = store.find(f"trials/{name}/agent/candidates.json")
    candidates = [Candidate.model_validate(one, extra="ignore") for one in (json.loads(made) if made else ())]
    metadata = result.agent_result.metadata
    selection = metadata.get("selection") or {}
    trial = AuditedTrial(
        name=name,
        task=result.task_name,
        seed=metadata["seed"],
        passed=result.passed,
        verdicts=len(metadata.get("bits") or ()),
        chosen=selection.get("chosen"),
        candidates=tuple((one.id, digest_of(one.files)) for one in candidates),
    )
    folder = f"trials/{name}/{DIFFERENCES}"
    paths = {path.rpartition("/")[2].removesuffix(".tar"): path for path in store.list(folder)}
    whole = {digest: base64.b64encode(store.read(path)).decode() for digest, path in paths.items()}
    held = {digest_of(one.files): one for one in candidates if one.files}
    return trial, {
        digest: exposure.State(kind="candidate", files=one.files, tar=whole.get(digest, ""))
        for digest, one in held.items()
        if one.all_text or digest in whole
    }
