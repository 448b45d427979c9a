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
SOLUTION = "solution"
"""In the place of a submission's digest: see ``output_file``."""


class Unsealed(Value):
    """The stored result of one grading."""

    verdict: Verdict
    output: str
    """The end of what ``test.sh`` printed."""
    solution: str = ""
    """The reference solution's output, for oracle trials."""
    looks: int
    """Number of looks at this dataset's outputs, including this one."""


def output_file(sealed_root: Path, task_digest: str, submission: str | None) -> Path:
    """Where the output of grading a submission is kept (its digest; ``REFERENCE``: the reference that was run where it
    was graded; None: the untouched environment); the verdict lies beside it. ``SOLUTION``: what the reference printed
    when it was run last."""
    return sealed_root / FOLDER / f"{task_digest[:16]}-{(submission or 'untouched')[:32]}.txt"


def unseal(
    sealed_root: Path, task_digest: str, submission: str | None, trial: str, *, solution: bool = False
) -> Unsealed:
    """What was kept of the grading of a submission (as ``output_file`` has it). ``trial``: its name for the ledger.
    ``solution``: with what the reference printed. Raises ``DatasetError`` where nothing is kept: a holdout trial's
    output never is."""
    path = output_file(sealed_root, task_digest, submission)
    try:
        # Ignore fields of earlier versions.
        verdict = Verdict.model_validate_json(path.with_suffix(".json").read_bytes(), extra="ignore")
    except FileNotFoundError:
        why = "only the data folder of the machine that graded has it, and that of holdout trials none"
        raise DatasetError(f"{trial}: no verifier output is stored here ({why})") from None
    output = _text(path)
    printed = _text(output_file(sealed_root, task_digest, SOLUTION)) if solution else ""
    looks = append(sealed_root / FOLDER / LOOKS, {"who": getpass.getuser(), "trial": trial})
    return Unsealed(verdict=verdict, output=output, solution=printed, looks=looks)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:  # the grading ended before it was run
        return ""
