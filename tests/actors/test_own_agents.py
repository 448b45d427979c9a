"""How many verdicts an agent can have, whatever it does in its own process."""

import json
from pathlib import Path

import pytest

from hc_ray.domain.config import SolverConfig
from hc_ray_actors.trials import Step
from tests.fakes.crew import Stage, attempts_of, outcome, plan_of, results_of, run, submission, verdict


@pytest.mark.parametrize(
    ("agent", "refinement", "judged"), [("mine:Agent@0123456789ab", 2, 1), ("raw", 2, 1), ("hc", 0, 1), ("hc", 1, 2)]
)
def test_an_agent_that_hands_in_again_and_again_gets_the_verdicts_that_are_due_and_no_more(
    tmp_path: Path, agent: str, refinement: int, judged: int
) -> None:
    plan = plan_of(tmp_path / "out", tasks=1, agents=(agent,), solver=SolverConfig(refinement=refinement))

    def again(name: str) -> Step:
        stage.living["Trials"][0].parked.add(name)
        return Step(submission=submission(plan.taken[0], name), outcome=outcome())

    stage = Stage(grade=lambda name: verdict(False), resume=again)
    summary, _ = run(plan, stage)
    assert stage.count("grade") == judged and stage.count("fail") == 1 and summary.unscored == 0
    (result,) = results_of(tmp_path / "out").values()
    assert result["verifier_result"]["rewards"]["reward"] == 0.0 and attempts_of(result) == []
    assert f"asked for another verdict; it has {judged}" in json.dumps(result)
