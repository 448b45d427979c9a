"""Running tests on states of the workspace, each in a fork of its own."""

from collections.abc import Mapping, Sequence

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.fork_steps import Exec, Put
from hc_ray.domain.suite import Cell, SelfTest
from hc_ray.selftests import runner

_KEEP_SECONDS = 60.0


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
            self._last = tests, repeats, *runner.steps(tests, workdir, repeats=repeats)
        *_, suite, drive = self._last
        try:
            done = await self.forks.in_fork(place, [*before, *self.forks.written(files), suite], drive)
        except ValueError as error:  # the candidate names a place where nothing can be written, or is in the way there
            says = f"its files cannot be written: {error}"
            return ((Cell(outcome="error", detail=says),),) * len(tests)
        return runner.read_runs(done.stdout, tests)
