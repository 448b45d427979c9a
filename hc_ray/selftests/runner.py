"""Runs a suite on states of a workspace, each in its own fork: its files in the sandbox, its command, and the parsing
of its report.

A suite is one run of ``inside/suites/driver.py`` in the sandbox, with each test in a separate child process. The report
is JSON lines on stdout; stderr is never parsed."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import get_args

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.fork_steps import Exec, Put
from hc_ray.domain.normalisation import normal
from hc_ray.domain.runner_paths import PYTEST_PURE, inside_command
from hc_ray.domain.suite import Cell, Outcome, SelfTest
from hc_ray.domain.task import FULL_PATH
from hc_ray.domain.value import digest_of

HOME = "/tmp/hc"
"""Folder of payloads in the sandbox, below /tmp so that no difference contains them."""

BEFORE = "/tmp/before"
"""Path of a copy of the untouched workdir, for checks that use it."""

OBSERVED_LIMIT = 2000
"""Maximum characters of an observation."""

SECONDS_PER_TEST = 8.0
"""Wall time limit of one test; its CPU time is limited to 2 s, so that a busy loop ends alike under any load."""

SECONDS_PER_CHECK = 60.0
"""Wall and CPU time limit of one check, which may have to build a program."""

CHECK_PROPERTY = "holds"
"""The only property of a check: its function returns without an exception."""

FILE_PROPERTIES = ("exists", "nonempty", "utf8", "valid_json", "valid_csv", "compiles", "defines")
"""Properties of a file, implemented in ``inside/suites/checks.py``."""
PROPERTIES = {"file": FILE_PROPERTIES, "check": (CHECK_PROPERTY,)}
"""Kind of subject → the properties that a test may expect."""


_REPORT_LIMIT = 8 << 20
_KEEP_SECONDS = 60.0
_SYSTEM = ("/bin/", "/usr/", "/dev/", "/proc/", "/sys/", "/lib", BEFORE)


def steps(tests: Sequence[SelfTest], workdir: str, *, repeats: int = 1) -> tuple[Put, Exec]:
    """The steps that put a suite into a sandbox and run it; ``read_runs`` parses the output. The time limit allows for
    start-up, tests that answer, and two tests past their time, after which the driver gives up on a candidate."""
    plan = {
        "tests": [test.model_dump(mode="json", include={"id", *DRIVEN}) for test in tests],
        "workdir": workdir,
        "outside": sorted(
            {
                path
                for test in tests
                if test.subject.kind == "check"
                for path in FULL_PATH.findall(test.input)
                if not path.startswith((*_SYSTEM, f"{workdir}/"))
            }
        ),
        "repeats": repeats,
        "seconds": SECONDS_PER_TEST,
        "check_seconds": SECONDS_PER_CHECK,
        "pytest": PYTEST_PURE,
    }
    path = f"{HOME}/{digest_of([test.model_dump(mode='json') for test in tests])[:12]}/tests.json"
    checks = sum(test.subject.kind == "check" for test in tests)
    slow = SECONDS_PER_CHECK if checks else SECONDS_PER_TEST
    timeout = 30.0 + 2 * slow + (1.0 * len(tests) + 10.0 * checks) * repeats
    drive = Exec(command=(*inside_command("driver"), path), timeout=timeout, output_limit=_REPORT_LIMIT)
    return Put(files={path: json.dumps(plan).encode()}), drive


DRIVEN = {"subject", "input", "stdin", "expectation"}
"""The fields of a test that determine its run."""


def read_runs(stdout: bytes, tests: Sequence[SelfTest]) -> tuple[tuple[Cell, ...], ...]:
    """All runs of every test, in the tests' order, with at least one cell each: a test missing from the report is an
    ``error``, since the driver was stopped before it or did not begin it. Skips lines that are not the driver's."""
    runs: defaultdict[str, list[Cell]] = defaultdict(list)
    for line in stdout.splitlines():
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(data, dict):
            continue
        if isinstance(data.get("id"), str) and data.get("outcome") in get_args(Outcome):
            runs[data["id"]].append(_cell(data))
    return tuple(tuple(runs[test.id]) or (STOPPED,) for test in tests)


STOPPED = Cell(outcome="error", detail="the suite was stopped before this test")


def _cell(data: dict[str, object]) -> Cell:
    observed, outcome = data.get("observed"), data["outcome"]
    return Cell(
        outcome=outcome,
        observed=normal(observed)[:OBSERVED_LIMIT] if isinstance(observed, str) else None,
        detail=str(data.get("detail") or "")[:OBSERVED_LIMIT],
    )


class SuiteRuns:
    """Fills cells of a pass matrix."""

    def __init__(self, forks: SandboxForks) -> None:
        self.forks = forks
        self._last: tuple[Sequence[SelfTest], int, Put, Exec] | None = None

    async def try_out(self, place: str, files: Mapping[str, str], tests: Sequence[SelfTest]) -> tuple[Cell, ...]:
        """Every test's cell on a fork with ``files``. ``place`` (a candidate's id) names the fork."""
        return tuple(runs[0] for runs in await self.repeat(place, files, tests, repeats=1))

    async def repeat(
        self, place: str, files: Mapping[str, str], tests: Sequence[SelfTest], *, repeats: int
    ) -> tuple[tuple[Cell, ...], ...]:
        """Like ``try_out``, running each test several times."""
        if not tests:
            return ()
        tests, workdir = tuple(tests), (await self.forks.base()).workdir
        keep = Exec(command=("cp", "-a", workdir, BEFORE), timeout=_KEEP_SECONDS)
        before = [keep] if any(BEFORE in test.input for test in tests) else []
        if self._last is None or self._last[0] is not tests or self._last[1] != repeats:
            self._last = tests, repeats, *steps(tests, workdir, repeats=repeats)
        *_, suite, drive = self._last
        try:
            done = await self.forks.in_fork(place, [*before, *self.forks.written(files), suite], drive)
        except ValueError as error:  # the candidate's path is not writable or blocked
            says = f"its files cannot be written: {error}"
            return ((Cell(outcome="error", detail=says),),) * len(tests)
        return read_runs(done.stdout, tests)
