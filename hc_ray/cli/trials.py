"""``show``, ``testgen``, ``regrade``, ``unseal``: one trial or suite explained, stored submissions graded again, and
the verifier's output of a dev trial."""

from typing import Annotated, Any

import typer

from hc_ray.cli.options import ENGINE, Config, Given, Json, Verbose, config_from, print_json, takes
from hc_ray.domain.errors import OutputError
from hc_ray.reports.page import VERDICTS


def show(
    trial: Annotated[str, typer.Argument(help="OUT/TRIAL (part of the name is enough); OUT alone lists its trials.")],
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Explain one trial. Prints instruction, self-tests, pass matrix, candidates, and why one of them was submitted;
    -v adds every prompt."""
    from hc_ray.reports import trial_view as shows
    from hc_ray.reports.report import rows_of
    from hc_ray.stores.sweep_directory import SweepStore

    out, name = _place(trial)
    store = SweepStore(out)
    if not name:
        rows = rows_of(store)
        if len(rows) != 1:
            _list(rows, as_json=as_json)
            return 0
        name = rows[0]["trial"]
    described = shows.describe(store, shows.find_trial(store, name))
    if as_json:
        print_json(described)
    else:
        from hc_ray.reports.trial_text import tell

        tell(described, out=out, verbose=verbose)
    return 0


def _list(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """The trials that one can ask for."""
    if as_json:
        print_json({"schema_version": 1, "trials": rows})
        return
    from hc_ray.reports.terminal import say, table

    table(
        ("trial", "task", "agent", "seed", "verdict", "self-tests", "tokens"),
        [
            (row["trial"], row["task"], row["agent"], row["seed"], VERDICTS[row["passed"]],
             "" if row["progress"] is None else f"{row['progress']:.0%}", row["tokens"])
            for row in rows
        ],
        numbers=("seed", "self-tests", "tokens"),
    )  # fmt: skip
    say(f"{len(rows)} finished trials; hc-ray show OUT/TRIAL explains one", style="dim")


def _place(trial: str) -> tuple[str, str]:
    """``OUT/TRIAL`` or ``OUT/trials/TRIAL`` → (OUT, TRIAL); (OUT, "") for a sweep directory alone."""
    from hc_ray.stores.sweep_directory import SweepStore

    whole = trial.rstrip("/")
    if SweepStore(whole).exists("sweep.json"):
        return whole, ""
    out, _, name = whole.rpartition("/")
    out = out.removesuffix("/trials") or "."
    if not SweepStore(out).exists("sweep.json"):
        raise OutputError(f"{trial}: {out} is not a sweep directory; give OUT/TRIAL")
    return out, name


@takes("--min", "--max", "--sandbox", *ENGINE)
def testgen(
    given: Given,
    path: Annotated[str, typer.Option("--path", "-p", help="The folder of one task.")],
    config: Config = None,
    tester: Annotated[
        str | None,
        typer.Option(
            "--tester",
            help="Models that write the tests, comma-separated: local, a model name, MODEL@URL or module:function.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Generate self-tests from a task's instruction alone. Shows which tests the gate admits, and why."""
    settings = config_from(config, given)
    from hc_ray_actors.jobs.single import make_suite

    if tester is not None:
        from hc_ray_actors.jobs.testers import with_testers

        settings = with_testers(settings, tester)
    suite = make_suite(settings, path)
    data = suite.model_dump(mode="json")
    gate = data.pop("gate")
    if as_json:
        told = {**data, "hash": suite.hash, "coverage": suite.covered}
        print_json({"schema_version": 1, "suite": told, "gate": gate})
        return 0
    from hc_ray.reports.terminal import say
    from hc_ray.reports.trial_text import tell_suite
    from hc_ray.reports.trial_view import told_suite

    tell_suite(told_suite({**data, "gate": gate}))
    say(
        f"\n{suite.prompt_tokens} prompt tokens, {suite.completion_tokens} completion tokens; suite {suite.hash[:12]}",
        style="dim",
    )
    return 0


def regrade(out: Annotated[str, typer.Argument(help="A sweep directory.")], as_json: Json = False) -> int:
    """Grade a sweep's stored submissions again with the current tests. Changes no stored result."""
    from hc_ray_actors.jobs.regrade import regrade as grade_again

    rows = grade_again(out)
    if as_json:
        print_json({"schema_version": 1, "trials": rows})
    else:
        from hc_ray.reports.terminal import say, table

        changed = [row for row in rows if row["before"] != row["after"]]
        if changed:
            table(
                ("trial", "before", "after", "cause"),
                [(row["trial"], VERDICTS[row["before"]], VERDICTS[row["after"]], row.get("cause")) for row in changed],
            )
        say(f"{len(rows)} submissions graded again, {len(changed)} verdicts differ")
    return 3 if any(row["after"] is None for row in rows) else 0


def unseal(trial: Annotated[str, typer.Argument(help="OUT/TRIAL, a dev trial.")], as_json: Json = False) -> int:
    """Show the verifier's output for a dev trial. Prints verdict, rewards and test output; each look is logged."""
    from hc_ray.reports import trial_view as shows
    from hc_ray.stores.sweep_directory import SweepStore
    from hc_ray_actors.jobs.regrade import unseal as look

    out, name = _place(trial)
    if not name:
        raise OutputError(f"{trial}: unseal needs one trial, OUT/TRIAL; hc-ray show {trial} lists them")
    kept = look(out, shows.find_trial(SweepStore(out), name))
    if as_json:
        print_json(kept)
        return 0
    from hc_ray.reports.terminal import say

    verdict = kept["verdict"]
    rewards = ", ".join(f"{key} {value:g}" for key, value in verdict["rewards"].items()) or "none"
    told = f"{kept['trial']}: {VERDICTS[verdict['passed']]} ({verdict['cause']})"
    say(f"{told}, rewards: {rewards}, witness: {verdict['witness']}")
    if verdict["detail"]:
        say(verdict["detail"])
    say(kept["output"].rstrip() or "test.sh printed nothing")
    say(f"This look has been logged. Looks at this dataset so far: {kept['looks']}.", style="dim")
    return 0
