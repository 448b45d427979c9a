"""Every `hc-ray` line of docs/protocol.md works with a stand-in server and dataset; sweeps as far as their plan."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.tasks.vocabulary import benchmark
from tests.fakes import sweepdir
from tests.fakes.engine_server import EngineServer
from tests.fakes.humaneval import PROBLEMS, data
from tests.fakes.sandbox_home import open_folder, own_home
from tests.fakes.tasks import make_task

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
LINES = re.findall(r"^hc-ray .*$", "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)), re.MULTILINE)
BWRAP = ("--sandbox", "bwrap", "--grading", "isolated", "--network", "mention")
NEEDS_MORE = ("doctor", "engine", "audit")
"""Verbs that a stand-in cannot serve: their flags are checked."""


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with open_folder() as folder, own_home():
        monkeypatch.chdir(folder)
        yield folder


def swept(folder: Path, url: str, split: str = "dev") -> None:
    engine = EngineConfig(base_url=url, model="Qwen/Qwen2.5-Coder-7B-Instruct")
    config = SweepConfig(dataset="terminal-bench-2", engine=engine, grading="shared", network="task")
    store = sweepdir.sweep(config, sweep_id=str(folder))
    sweepdir.add_trials(store, "hc", [True, True, True, False], split=split, seed=len(folder.name))
    store.save(folder)


@pytest.mark.slow
def test_every_command_of_the_protocol_works(ground, hc_ray):
    for name in benchmark():
        make_task(ground / "terminal-bench-2", name, instruction=f"Write `add.py` for {name}.\n")
    with EngineServer(lambda body: "nothing", listed={"max_model_len": 32_768}) as server:
        for name in ("dev", "dev-grid"):
            swept(ground / "runs" / name, server.base_url)
        swept(ground / "runs" / "holdout", server.base_url, "holdout")
        planned = []
        for line in LINES:
            words = shlex.split(line.partition(" > ")[0].replace("http://127.0.0.1:8000/v1", server.base_url))[1:]
            if words[0] in NEEDS_MORE or "--resume" in words:
                words.append("--help")
            elif words[0] == "sweep":
                words += [*BWRAP, "--dry-run", "--json", "-o", "runs/new"]
            elif words[:2] == ["tasks", "import"]:
                words += ["--data", str(data(ground, *(PROBLEMS[0] | {"task_id": f"HumanEval/{n}", "prompt":
                          f"{PROBLEMS[0]['prompt']}# {n}\n"} for n in range(10))))]  # fmt: skip
            plan = hc_ray(*words)
            if "--dry-run" in words:
                planned.append((len(plan["taken"]), len(plan["trials"]), plan["split"]))
    assert planned == [
        (89, 178, "all"), (70, 210, "dev"), (70, 210, "dev"), (70, 280, "dev"), (19, 285, "holdout"),
        (19, 285, "holdout"), (10, 20, "all"), (8, 72, "dev"),
    ]  # fmt: skip
    assert (ground / "claim" / "report.html").is_file()
