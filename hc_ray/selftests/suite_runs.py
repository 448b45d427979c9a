"""Running tests on states of the workspace: each in a fork of its own, or several states one after another in one."""

from collections.abc import Mapping, Sequence

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.fork_steps import Exec, Put
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.selftests import runner

_KEEP_SECONDS = 60.0
_REPORT_LIMIT = 8 << 20


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
        keep = Exec(command=("cp", "-a", workdir, runner.BEFORE), timeout=_KEEP_SECONDS)
        before = [keep] if any(runner.BEFORE in test.input for test in tests) else []
        if self._last is None or self._last[0] is not tests or self._last[1] != repeats:
            suite = Put(files=runner.payload(tests, workdir, repeats=repeats))
            self._last = tests, repeats, suite, _drive(tests, runner.deadline(tests, repeats=repeats))
        *_, suite, drive = self._last
        try:
            done = await self.forks.in_fork(place, [*before, *self.forks.written(files), suite], drive)
        except ValueError as error:  # the candidate names a place where nothing can be written, or is in the way there
            says = f"its files cannot be written: {error}"
            return ((Cell(outcome="error", detail=says),),) * len(tests)
        return runner.read_runs(done.stdout, tests)

    def may_share(self, files: Mapping[str, str]) -> bool:
        """Whether these files are a whole candidate and lie in the workdir, so that others can take their place."""
        return self.forks.whole(files) and all(_inside(path) for path in files)

    async def try_all(
        self, place: str, variants: Mapping[str, Mapping[str, str]], tests: Sequence[SelfTest]
    ) -> dict[str, tuple[Cell, ...]]:
        """As ``try_out`` for several states at once: name → cells. Those whose files all lie in the workdir share one
        fork and one run (what starts a run costs more than a test), unless a check, which may leave processes, is among
        the tests; one that the run does not tell whole, and those that a run before it left no room for, get a fork of
        their own."""
        shared = {name: files for name, files in variants.items() if self.may_share(files)}
        found: dict[str, tuple[Cell, ...]] = {}
        if len(shared) > 1 and tests and all(test.subject.kind != "check" for test in tests):
            found = await self._together(place, shared, tests)
        for name, files in variants.items():
            if name not in found:
                found[name] = await self.try_out(f"{place}-{name}", files, tests)
        return {name: found[name] for name in variants}

    async def _together(
        self, place: str, variants: Mapping[str, Mapping[str, str]], tests: Sequence[SelfTest]
    ) -> dict[str, tuple[Cell, ...]]:
        workdir = (await self.forks.base()).workdir
        suite = Put(files=runner.payload(tests, workdir, variants=variants))
        drive = _drive(tests, runner.deadline(tests, variants=len(variants)))
        try:
            done = await self.forks.in_fork(place, [suite], drive)
        except ValueError:
            return {}
        return runner.read_variants(done.stdout, tests, tuple(variants))


def _drive(tests: Sequence[SelfTest], limit: float) -> Exec:
    return Exec(command=tuple(runner.command(tests)), timeout=limit, output_limit=_REPORT_LIMIT)


def _inside(path: str) -> bool:
    """Whether a path lies in the workdir and can be put back there."""
    return not path.startswith("/") and ".." not in path.split("/") and "\0" not in path
