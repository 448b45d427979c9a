"""What a verifier saw of a dev trial, kept sealed: the output of ``test.sh`` and the whole verdict, partial rewards
included. A person may look at it (``hc-ray unseal``); that somebody did is written down before anything is shown."""

import getpass
from pathlib import Path

from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.sealing.kept import append
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.value import Value

FOLDER, LOOKS = "outputs", "looks.jsonl"
REFERENCE = "reference"
"""In the place of a submission's digest: see ``output_file``."""


class Unsealed(Value):
    """What is kept of one grading."""

    verdict: Verdict
    output: str
    """The end of what ``test.sh`` printed."""
    looks: int
    """How often outputs of this dataset were looked at, this time included."""


def output_file(sealed_root: Path, task_digest: str, submission: str | None) -> Path:
    """Where the output of grading a submission is kept (its digest; ``REFERENCE``: the reference that was run where it
    was graded; None: the untouched environment); the verdict lies beside it."""
    return sealed_root / FOLDER / f"{task_digest[:16]}-{(submission or 'untouched')[:32]}.txt"


def unseal(sealed_root: Path, task_digest: str, submission: str | None, trial: str) -> Unsealed:
    """What was kept of the grading of a submission (as ``output_file`` has it). ``trial``: its name for the ledger.
    Raises ``DatasetError`` where nothing is kept: a holdout trial's output never is."""
    path = output_file(sealed_root, task_digest, submission)
    try:
        # Of an earlier version, whose verdicts told more: what is gone is passed over.
        verdict = Verdict.model_validate_json(path.with_suffix(".json").read_bytes(), extra="ignore")
    except FileNotFoundError:
        raise DatasetError(f"{trial}: no verifier output is stored (it never is for holdout trials)") from None
    try:
        output = path.read_text(errors="replace")
    except FileNotFoundError:  # the grading ended before test.sh ran
        output = ""
    looks = append(sealed_root / FOLDER / LOOKS, {"who": getpass.getuser(), "trial": trial})
    return Unsealed(verdict=verdict, output=output, looks=looks)
