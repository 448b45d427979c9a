"""``show``, ``testgen``, ``regrade``, ``unseal``, ``audit``: explain a trial, generate a suite, grade submissions
again, show a dev trial's verifier output, measure the true quality of a sweep's self-tests."""

from typing import Annotated, Any

from typer import Argument, Option

from hc_ray.cli.options import (
    ENGINE,
    Config,
    Given,
    Json,
    Out,
    TestsBy,
    Verbose,
    answer,
    config_from,
    print_json,
    takes,
    words_beside,
)
from hc_ray.domain.errors import ConfigError, OutputError
from hc_ray.reports.page import VERDICTS, Section

TRIALS = 200
"""The most trials that ``show`` lists without ``-v``."""


def show(
    trial: Annotated[str, Argument(help="OUT/TRIAL (part of the name is enough); OUT alone lists its trials.")],
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Explain one trial. Prints the instruction, the self-tests, the pass matrix, the candidates, and why one of them
    was submitted; -v does not shorten texts and lists, and adds every prompt."""
    from hc_ray.reports import trial_view as shows
    from hc_ray.reports.report import rows_of
    from hc_ray.stores.sweep_directory import SweepStore

    out, name = _place(trial)
    store = SweepStore(out)
    if not name:
        rows = rows_of(store)
        if len(rows) != 1:
            return answer(as_json, {"trials": rows}, _listed(rows, len(rows) if verbose else TRIALS))
        name = rows[0]["trial"]
    described = shows.describe(store, shows.find_trial(store, name))
    from hc_ray.reports.trial_text import trial_sections

    return answer(as_json, described, *trial_sections(described, out=out, verbose=verbose))


def _listed(rows: list[dict[str, Any]], most: int) -> Section:
    """A table of finished trials, at most ``most``."""
    told = [
        (row["trial"], row["task"], row["agent"], row["seed"], VERDICTS[row["passed"]],
         "" if row["progress"] is None else f"{row['progress']:.0%}", row["tokens"])
        for row in rows[:most]
    ]  # fmt: skip
    columns, end = ("trial", "task", "agent", "seed", "verdict"), ("self-tests", "tokens")
    more = [f"and {len(rows) - most} more (-v lists them)"] if len(rows) > most else []
    hint = f"{len(rows)} finished trials; hc-ray show OUT/TRIAL explains one"
    return Section("", (*columns, *end), told, numbers=("seed", *end), after=[*more, hint],
                   spare=("tokens", "self-tests", "seed", "task"))  # fmt: skip


def _place(trial: str) -> tuple[str, str]:
    """Split ``OUT/TRIAL`` or ``OUT/trials/TRIAL`` into (OUT, TRIAL); (OUT, "") for a sweep directory alone."""
    from hc_ray.stores.sweep_directory import SweepStore, sweep_at

    whole = trial.rstrip("/")
    if SweepStore(whole).exists("sweep.json"):
        return whole, ""
    out, _, name = whole.rpartition("/")
    out = out.removesuffix("/trials") or "."
    if not SweepStore(out).exists("sweep.json"):
        if SweepStore(whole).exists("settings.json"):
            sweep_at(whole)  # raises, saying that it is a climb
        raise OutputError(f"{trial}: neither this nor {out} is a sweep directory; expected OUT or OUT/TRIAL")
    return out, name


@takes("--min", "--max", "--sandbox", *ENGINE)
def testgen(
    given: Given,
    path: Annotated[str, Option("--path", "-p", help="The folder of one task.")],
    config: Config = None,
    tester: TestsBy = None,
    as_json: Json = False,
) -> None:
    """Generate self-tests from a task's instruction alone. Shows which tests the gate admits or drops, and why."""
    settings = config_from(config, given, tester=tester)
    from hc_ray_actors.jobs.single import make_suite

    suite = make_suite(settings, path)
    data = suite.model_dump(mode="json")
    if as_json:
        gate = data.pop("gate")
        return print_json({"suite": {**data, "hash": suite.hash, "coverage": suite.covered}, "gate": gate})
    from hc_ray.reports.terminal import say, tell
    from hc_ray.reports.trial_text import suite_sections
    from hc_ray.reports.trial_view import told_suite

    tell(*suite_sections(told_suite(data)))
    cost = f"{suite.prompt_tokens} prompt tokens, {suite.completion_tokens} completion tokens"
    say(f"\n{cost}; suite {suite.hash[:12]}", style="dim")


def regrade(out: Out, as_json: Json = False) -> int:
    """Grade a sweep's stored submissions again with the current tests. Changes no stored result."""
    from hc_ray.domain.value import counted
    from hc_ray_actors.jobs.regrade import regrade as grade_again

    rows = grade_again(out)
    changed = [
        (row["trial"], VERDICTS[row["before"]], VERDICTS[row["after"]], row.get("cause"))
        for row in rows
        if row["before"] != row["after"]
    ]
    told = f"{counted(len(rows), 'submission')} graded again; verdicts that differ: {len(changed)}"
    answer(as_json, {"trials": rows}, Section("", ("trial", "before", "after", "cause"), changed), told)
    return 3 if any(row["after"] is None for row in rows) else 0


def unseal(trial: Annotated[str, Argument(help="OUT/TRIAL, a dev trial.")], as_json: Json = False) -> None:
    """Show the verifier's output for a dev trial. Prints the verdict, the rewards and the test output, and for the
    oracle also the reference solution's output; every look is logged."""
    from hc_ray.reports import trial_view as shows
    from hc_ray.stores.sweep_directory import SweepStore
    from hc_ray_actors.jobs.regrade import unseal as look

    out, name = _place(trial)
    if not name:
        raise OutputError(f"{trial}: name one trial, OUT/TRIAL; hc-ray show {trial} lists them")
    kept = look(out, shows.find_trial(SweepStore(out), name))
    verdict, solution = kept["verdict"], kept["solution"].rstrip()
    rewards = ", ".join(f"{key} {value:g}" for key, value in verdict["rewards"].items()) or "none"
    told = f"{kept['trial']}: {VERDICTS[verdict['passed']]} ({verdict['cause']})"
    answer(
        as_json,
        kept,
        f"{told}, rewards: {rewards}, witness: {verdict['witness']}",
        *filter(None, [verdict["detail"]]),
        *([f"solution/solve.sh printed:\n{solution}\ntest.sh printed:"] if solution else ()),
        kept["output"].rstrip() or "test.sh printed nothing",
        f"This look has been logged. Looks at this dataset so far: {kept['looks']}.",
    )


def audit(
    out: Out,
    self_tests: Annotated[
        bool,
        Option(
            "--self-tests/--no-self-tests",
            help="Also audit the self-tests. --no-self-tests only grades the candidates, which is fast.",
        ),
    ] = True,
    split: Annotated[
        str, Option("--split", help="The sweep's split: dev or holdout. A holdout audit counts as a look.")
    ] = "dev",
    as_json: Json = False,
) -> int:
    """Measure a sweep's self-tests against the hidden tests. Also grades every candidate; writes audit.json."""
    if split not in ("dev", "holdout"):
        raise ConfigError(f"--split: {split!r} is not allowed; allowed: dev, holdout")
    from hc_ray.domain.value import counted
    from hc_ray.reports.audit_section import quality_section
    from hc_ray.reports.terminal import say
    from hc_ray_actors.jobs import audit as auditing

    with words_beside(as_json):
        prepared = auditing.prepare(out, self_tests=self_tests, split=split)
        if prepared.gone:
            left_out = f"{counted(prepared.gone, 'task')} of this sweep changed since, or went: left out of the audit."
            say(left_out, style="yellow")
        elif prepared.tests_changed:
            changed = (
                "The hidden tests changed since this sweep: its verdicts rest on the old ones, the audit on the new."
            )
            say(changed, style="yellow")
        summary, _ = auditing.run(prepared, told=lambda line: say(line, style="dim"))
    saved = f"\nSaved in {out}/audit.json; `hc-ray report {out}` includes it."
    answer(as_json, summary, quality_section(summary), saved)
    return 3 if summary["tasks"]["lost_end_states"] else 0
