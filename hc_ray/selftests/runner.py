"""Running a suite: what is put into a sandbox, the command that drives it, how its report is read, and the states of a
workspace that it is run on, each in a fork of its own.

A suite is one run of ``inside/suites/driver.py`` in the sandbox, each test in a child process of its own. The report
comes as JSON lines on standard output; what goes to standard error is never parsed."""

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
"""Where payloads lie inside; below /tmp, so that no difference holds them."""

BEFORE = "/tmp/before"
"""Where checks find the workdir as it was before anybody worked, if they name it."""

OBSERVED_LIMIT = 2000
"""Characters of an observation."""

SECONDS_PER_TEST = 8.0
"""Wall time of one test; its processor time is limited to 2 s, so that a busy loop ends the same under any load."""

SECONDS_PER_CHECK = 60.0
"""Wall and processor time of one check: it may build a program."""

CHECK_PROPERTY = "holds"
"""The one property of a check: its function ends without an exception."""

FILE_PROPERTIES = ("exists", "nonempty", "utf8", "valid_json", "valid_csv", "compiles", "defines")
"""Properties of a file; ``inside/suites/checks.py`` says what each means."""
PROPERTIES = {"file": FILE_PROPERTIES, "check": (CHECK_PROPERTY,)}
"""Kind of subject → every property that a test may expect of it."""


_REPORT_LIMIT = 8 << 20
_KEEP_SECONDS = 60.0
_SYSTEM = ("/bin/", "/usr/", "/dev/", "/proc/", "/sys/", "/lib", BEFORE)


def steps(tests: Sequence[SelfTest], workdir: str, *, repeats: int = 1) -> tuple[Put, Exec]:
    """What puts a suite into a sandbox, and what runs it there: ``read_runs`` reads the output. It is given up when the
    driver has lost patience with a candidate after two tests past their time, and the rest is start-up and tests that
    answer."""
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
"""What of a test decides how it runs."""


def read_runs(stdout: bytes, tests: Sequence[SelfTest]) -> tuple[tuple[Cell, ...], ...]:
    """Every run of every test, in the tests' order; at least one cell each: a test that the report does not name is an
    ``error``, the driver was stopped before it or did not begin it. Lines that are not the driver's are skipped."""
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
        """Every test's cell on a fork that holds ``files``. ``place`` (a candidate's id) names the fork."""
        return tuple(runs[0] for runs in await self.repeat(place, files, tests, repeats=1))

    async def repeat(
        self, place: str, files: Mapping[str, str], tests: Sequence[SelfTest], *, repeats: int
    ) -> tuple[tuple[Cell, ...], ...]:
        """As ``try_out``, each test run several times."""
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
        except ValueError as error:  # the candidate names a place where nothing can be written, or is in the way there
            says = f"its files cannot be written: {error}"
            return ((Cell(outcome="error", detail=says),),) * len(tests)
        return read_runs(done.stdout, tests)
