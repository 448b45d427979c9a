"""An audit changes nothing that a later trial asks or hands in: the same sweep, once before and once after the audit of
the first, sends the same to its engine (in normal form: what is shown to a model is true of one run alone)."""

import json
from pathlib import Path
from typing import Any

from hc_ray.domain.config import BudgetConfig, EngineConfig, SolverConfig, TestgenConfig
from hc_ray_actors.jobs import audit as auditing
from tests.boundary.noninterference.compare import without
from tests.boundary.noninterference.datasets import only_add
from tests.fakes import sweeps
from tests.fakes.engine_server import EngineServer
from tests.fakes.normal_form import of_body
from tests.fakes.sandbox_home import own_home
from tests.fakes.unsteady_model import answer

SOLVER = SolverConfig(samples=2, max_turns=4, max_rounds=2,
                      testgen=TestgenConfig(total_min=3, total_max=6, tests_per_category_max=3, budget_tokens=600,
                                            rounds=1))  # fmt: skip


def swept(dataset: Path, out: Path, server: EngineServer) -> tuple[list[bytes], dict[str, Any]]:
    """What a sweep sent to its engine (a round's requests go side by side, so sorted), and what its trials made."""
    server.requests.clear()
    engine = EngineConfig(kind="openai", model="fake", base_url=server.base_url, context_tokens=2048)
    _, summary = sweeps.swept(out, dataset, engine=engine, sandbox="bwrap", concurrency=1, agents=("hc",),
                              solver=SOLVER, budget=BudgetConfig(tokens=2000))  # fmt: skip
    assert summary.done == 1 and not summary.unscored
    made = {path.relative_to(out).as_posix(): without(json.loads(path.read_bytes()), set())
            for pattern in ("suites/*.json", "trials/*/agent/candidates.json")
            for path in out.glob(pattern)}  # fmt: skip
    asked = (of_body(body) for path, body in server.requests if path.endswith("completions"))
    return sorted(asked), made


def test_a_sweep_after_an_audit_sends_and_makes_what_it_did_before(tmp_path: Path):
    dataset = tmp_path / "tasks"
    only_add(dataset)
    with own_home() as home, EngineServer(answer) as server:
        before = swept(dataset, tmp_path / "before", server)
        summary, _ = auditing.run(auditing.prepare(str(tmp_path / "before")))
        assert list((home / "sealed").glob("*/audit/*.json")) and (tmp_path / "before" / "audit.json").is_file()
        after = swept(dataset, tmp_path / "after", server)
    assert summary["tasks"]["measured"] == 1 and summary["whole"]["generated"]["tests"] > 0
    assert before[0] and before[0] == after[0]
    assert before[1] and before[1] == after[1]
