"""The gate's steps that run something: the untouched environment and trivial candidates. What each says is decided by
the pure functions of ``gate``."""

from collections.abc import Sequence

from hc_ray.agent.deliverable import Deliverable
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.suite import SelfTest
from hc_ray.selftests import gate
from hc_ray.selftests.baseline_programs import trivial_candidates
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.spec.spec import Spec


async def prove(
    tests: Sequence[SelfTest],
    config: TestgenConfig,
    *,
    spec: Spec,
    deliverable: Deliverable,
    runs: SuiteRuns,
    place: str,
) -> tuple[gate.Gated, str]:
    """All of the gate, and a line on what trivial candidates pass (empty where none was run)."""
    gated = gate.screen(tests)
    if config.gate == "off":
        return gated, ""
    untouched = await runs.repeat(f"{place}-gate", {}, gated.admitted, repeats=gate.STABLE_RUNS)
    gated = gate.joined(gated, gate.run_through(gated.admitted, untouched))
    rows = await runs.try_all(f"{place}-variants", trivial_candidates(spec, deliverable), gated.admitted)
    judged, told = gate.against_trivial(gated.admitted, rows)
    return gate.joined(gated, judged), told
