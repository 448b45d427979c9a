"""Builds a small sweep directory in memory or in a temporary folder, for tests of what reads one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.suite import Cell, GateVerdict, PassMatrix, SelfTest, Suite
from hc_ray.domain.trial import AgentInfo, AgentResult, ExceptionInfo, TrialResult, VerifierResult, score
from hc_ray.stores.sweep_directory import parquet, read_parquet
from tests.fakes.suites import call_test
from tests.fakes.tars import make_tar


class MemoryStore:
    """``ports.Store`` in a dict."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def find(self, path: str) -> bytes | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def rows(self, path: str) -> list[dict[str, Any]]:
        return read_parquet(self.read(path))

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix.rstrip("/") + "/"))

    def holding(self, name: str) -> set[str]:
        return {parts[1] for path in self.list("trials") if (parts := path.split("/"))[2:] == [name]}

    def save(self, folder: Path) -> Path:
        for path, data in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        return folder


DIED = ExceptionInfo(exception_type="EngineError", exception_message="the server died\nat once", occurred_at="x")


def sweep(config: SweepConfig | None = None, **more: Any) -> MemoryStore:
    store = MemoryStore()
    data = {
        "schema_version": 1, "sweep_id": "sweep-1", "started_at": "2026-11-21T09:59:30+00:00",
        "config": (config or SweepConfig()).model_dump(mode="json"),
        "split": "dev", "tasks": [], "versions": {"hc_ray": "0.1.0", "git_sha": "abc123"}, "holdout_looks": 0, **more,
    }  # fmt: skip
    store.write("sweep.json", json.dumps(data).encode())
    return store


def add_trial(
    store: MemoryStore, task: str, agent: str, passed: bool | None, *, seed: int = 0, split: str = "dev",
    digest: str | None = None, tokens: tuple[int | None, int | None] = (600, 400), config_hash: str = "c" * 64,
    metadata: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """One committed trial; returns its name. ``passed`` None is an unscored one."""
    name = f"{task}__{agent}{split[0]}{seed}{config_hash[:2]}"
    progress = None if agent in ("raw", "best_of_n") else (0.9 if passed else 0.5)
    result = TrialResult(
        task_name=task,
        trial_name=name,
        task_checksum=digest or f"digest-of-{task}",
        agent_info=AgentInfo(name=agent, version="0.1.0"),
        agent_result=AgentResult(
            n_input_tokens=tokens[0],
            n_output_tokens=tokens[1],
            metadata={
                "agent": agent, "config_hash": config_hash, "split": split, "seed": seed, "turns": 3,
                "score": score(passed, 3, progress), "progress": progress,
                "self_pass": None if progress is None else bool(passed), "bits": [] if passed is None else [passed],
                "engine_seconds": 2.5, "sandbox": "bwrap", "grading": "isolated", "network": "mention",
                "witness": "agrees", "timeout_multiplier": 1.0, **(metadata or {}),
            },
        ),
        verifier_result=None if passed is None else VerifierResult(rewards={"reward": 1.0 if passed else 0.0}),
        exception_info=DIED if passed is None else None,
        started_at="2026-11-21T10:00:00+00:00",
        finished_at="2026-11-21T10:00:30+00:00",
    )  # fmt: skip
    store.write(f"trials/{name}/result.json", result.model_dump_json().encode())
    return name


def add_trials(store: MemoryStore, agent: str, verdicts: Sequence[bool | None], **more: Any) -> None:
    """One trial a task (``t00``, ``t01`` …) with the verdicts given."""
    for index, passed in enumerate(verdicts):
        add_trial(store, f"t{index:02}", agent, passed, **more)


def demo_like() -> MemoryStore:
    """Eight tasks, three agents, one unscored trial."""
    store = sweep()
    add_trials(store, "raw", [True, True] + [False] * 6)
    add_trials(store, "best_of_n", [True, True, True] + [False] * 4 + [None])
    add_trials(store, "hc", [True, True, True, True] + [False] * 4)
    return store


def add_told_trial(store: MemoryStore) -> str:
    """A trial with everything that ``show`` can tell: suite with a dropped test, matrix, two candidates, a choice."""

    def test_of(identifier: str, call: str, value: str) -> SelfTest:
        return call_test(identifier, call, value, path="double.py", sentence="Return twice the number.")

    name = add_trial(
        store,
        "double",
        "hc",
        True,
        metadata={
            "self_tests": {"generated": 3, "admitted": 2},
            "candidates": [
                {"id": "c0.0", "round": 0, "slot": 0, "parent": None, "temperature": 0.3, "form": "chat",
                 "plan": "plain", "tokens": 210, "passed": 1, "duplicate_of": None, "malformed": None},
                {"id": "c0.1", "round": 0, "slot": 1, "parent": None, "temperature": 0.5, "form": "completion",
                 "plan": "steps", "tokens": 190, "passed": 2, "duplicate_of": None, "malformed": None},
            ],
            "selection": {"selector": "posterior", "chosen": "c0.1", "why": "it passes 2 of 2 tests",
                          "scores": {"c0.0": -3.0, "c0.1": 1.5}},
            "stop_reason": "complete",
        },
    )  # fmt: skip
    suite = Suite(
        tests=(test_of("t1", "double(2)", "4"), test_of("t2", "double(0)", "0")),
        dropped=(test_of("t3", "double('a')", "9"),),
        gate=(
            GateVerdict(id="t1", admitted=True, reason="fails before, stable"),
            GateVerdict(id="t2", admitted=True, reason="fails before, stable"),
            GateVerdict(id="t3", admitted=False, reason="contradicted by a second reading"),
        ),
    )
    four, wrong = Cell(outcome="pass", observed="4"), {"observed": "1", "detail": "observed 1, expected 0"}
    cells = ((four, Cell(outcome="fail", **wrong)), (four, Cell(outcome="pass", observed="0")))
    matrix = PassMatrix(candidates=("c0.0", "c0.1"), tests=("t1", "t2"), cells=cells)
    candidates = [
        {"id": "c0.0", "round": 0, "slot": 0, "seed": 1, "temperature": 0.3, "form": "chat", "plan": "plain",
         "files": {"double.py": "def double(n):\n    return n + n or 1\n"}},
        {"id": "c0.1", "round": 0, "slot": 1, "seed": 2, "temperature": 0.5, "form": "completion", "plan": "steps",
         "files": {"double.py": "def double(n):\n    return 2 * n\n"}},
    ]  # fmt: skip
    config = {"schema_version": 1, "task": "double", "task_digest": "digest-of-double", "agent": "hc", "seed": 0}
    trajectory = {
        "steps": [{"step_id": 1, "source": "user", "message": "Write double(n) in double.py."}],
        "subagent_trajectories": [
            {"trajectory_id": "c0.1", "extra": {"purpose": "candidate"},
             "steps": [{"source": "user", "message": "PROMPT-TEXT"}, {"source": "agent", "message": "ANSWER-TEXT"}]}
        ],
    }  # fmt: skip
    for path, data in (("config", config), ("agent/candidates", candidates), ("agent/trajectory", trajectory)):
        store.write(f"trials/{name}/{path}.json", json.dumps(data).encode())
    store.write(f"trials/{name}/agent/suite.json", suite.model_dump_json().encode())
    rows = [
        {"candidate": candidate, "test": test, **cell.model_dump()}
        for candidate, row in zip(matrix.candidates, matrix.cells, strict=True)
        for test, cell in zip(matrix.tests, row, strict=True)
    ]
    store.write(f"trials/{name}/agent/matrix.parquet", parquet(rows))
    handed_in = make_tar({"app/double.py": "def double(n):\n    return 2 * n\n"})
    store.write(f"trials/{name}/artifacts/submission.tar", handed_in)
    return name
