"""``audit``: the true quality of a sweep's self-tests, measured with the hidden tests once the sweep has ended."""

from typing import Annotated

import typer

from hc_ray.cli.options import Json, people, print_json
from hc_ray.domain.errors import ConfigError


def audit(
    out: Annotated[str, typer.Argument(help="A sweep directory.")],
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
    as_json: Json = False,
) -> int:
    """Measure a sweep's self-tests against the hidden tests. Also grades every candidate. Writes audit.json."""
    if split not in ("dev", "holdout"):
        raise ConfigError(f"--split: {split!r} is not allowed; allowed: dev, holdout")
    from hc_ray.reports.audit_section import quality_section
    from hc_ray.reports.terminal import say, tell
    from hc_ray_actors.jobs import audit as auditing

    prepared = auditing.prepare(out, self_tests=self_tests, split=split)
    if prepared.tests_changed:
        says = "The hidden tests changed since this sweep: the audit uses the new ones, its verdicts used the old ones."
        say(says, stream=people(as_json), style="yellow")

    summary, _ = auditing.run(prepared, told=lambda line: say(line, stream=people(as_json), style="dim"))
    if as_json:
        print_json(summary)
    else:
        tell(quality_section(summary))
        say(f"\nSaved in {out}/audit.json; `hc-ray report {out}` includes it.", style="dim")
    return 3 if summary["tasks"]["lost_end_states"] else 0
