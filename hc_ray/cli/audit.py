"""``audit``: the true quality of a sweep's self-tests, measured with the hidden tests once the sweep has ended."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hc_ray.cli.options import Json, people, print_json


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(audit)


def audit(
    out: Annotated[str, typer.Argument(help="A sweep directory.")],
    candidates: Annotated[
        int | None, typer.Option("--candidates", min=0, help="Distinct candidates to grade per task (default: all).")
    ] = None,
    self_tests: Annotated[
        bool,
        typer.Option(
            "--self-tests/--no-self-tests",
            help="Audit the self-tests too. --no-self-tests only grades the candidates, which is fast.",
        ),
    ] = True,
    split: Annotated[
        str, typer.Option("--split", help="The sweep's split: dev or holdout. A holdout audit counts as a look.")
    ] = "dev",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cost estimate and stop.")] = False,
    as_json: Json = False,
) -> int:
    """Measure a sweep's self-tests against the hidden tests. Also grades every candidate. Writes audit.json."""
    from hc_ray.domain.errors import ConfigError

    if split not in ("dev", "holdout"):
        raise ConfigError(f"--split: {split!r} is not allowed; allowed: dev, holdout")
    from hc_ray_actors.jobs import audit as auditing
    from hc_ray_actors.jobs.audit_subjects import AuditSettings

    settings = AuditSettings(candidates=candidates, self_tests=self_tests)
    prepared = auditing.prepare(out, settings, split=split)
    cost = _cost(prepared)
    if dry_run and as_json:
        print_json({"schema_version": 1, **cost})
        return 0
    _tell_cost(cost, as_json=as_json)
    if dry_run:
        return 0
    from hc_ray.reports.terminal import say

    summary, _ = auditing.run(prepared, told=lambda line: say(line, stream=people(as_json), style="dim"))
    if as_json:
        print_json(summary)
    else:
        tell_quality(summary)
        say(f"\nSaved in {out}/audit.json; `hc-ray report {out}` includes it.", style="dim")
    return 3 if summary["tasks"]["lost_end_states"] else 0


def _cost(prepared: Any) -> dict[str, Any]:
    """What an audit takes at most."""
    return {
        "tasks": len(prepared.subjects),
        "suites": sum(len(one.suites) for one in prepared.subjects),
        "tests": sum(len(suite.tests) + len(suite.dropped) for one in prepared.subjects for suite in one.suites),
        "candidates": sum(len(one.candidates) for one in prepared.subjects),
        "sandboxes": prepared.sandboxes,
        "seconds": prepared.seconds,
        "tests_changed": prepared.tests_changed,
    }


def _tell_cost(cost: Mapping[str, Any], *, as_json: bool) -> None:
    from hc_ray.reports.progress import clock, counted
    from hc_ray.reports.terminal import say

    stream = people(as_json)
    about = "" if cost["seconds"] is None else f", about {clock(cost['seconds'])} at the sweep's grading speed"
    say(
        f"Audit of {counted(cost['tasks'], 'task')}: {counted(cost['suites'], 'suite')}, "
        f"{counted(cost['tests'], 'test')}, {counted(cost['candidates'], 'distinct candidate')}. At most "
        f"{cost['sandboxes']} sandboxes{about}; results of an earlier audit are reused.",
        stream=stream,
    )
    if cost["tests_changed"]:
        says = "The hidden tests changed since this sweep: the audit uses the new ones, its verdicts used the old ones."
        say(says, stream=stream, style="yellow")


_WORDS = {"fault_detection": "faults found", "false_rejection": "false rejections"}


def tell_quality(audit: Mapping[str, Any], stream: Any = None) -> None:
    """An audit's figures of the self-tests: all before and after the gate with intervals, then each category and
    tester."""
    from hc_ray.reports.audit_section import MEASURES, change_text, limits_sentence, share_text
    from hc_ray.reports.terminal import say, table

    whole = audit["whole"]
    rows = [("judging tests", *(str(whole[stage]["judging"]) for stage in whole))]
    rows += [(_WORDS.get(one, one), *(share_text(whole[stage][one]) for stage in whole)) for one in MEASURES]
    table(("self-tests", *whole), rows, stream=stream)
    for group, word in (("categories", "category"), ("testers", "tester")):
        if not audit[group]:
            continue
        say(f"\nby {word}, generated → admitted", stream=stream, style="bold")
        table(
            (word, "judging", *(_WORDS.get(one, one) for one in MEASURES)),
            [
                (name, f"{both['generated']['judging']} → {both['admitted']['judging']}",
                 *(change_text(both["generated"][one], both["admitted"][one]) for one in MEASURES))
                for name, both in audit[group].items()
            ],
            stream=stream,
        )  # fmt: skip
    say("\n" + limits_sentence(audit), stream=stream, style="dim")
    if audit["disagreeing_verdicts"]:
        says = f"{audit['disagreeing_verdicts']} submissions got a different verdict when they were graded again"
        say(says, stream=stream, style="yellow")
