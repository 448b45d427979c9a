"""Canaries: tokens that the vault plants in what it seals turn up nowhere else, and where one does, the run fails."""

import base64
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray import canaries
from hc_ray.blind import vault
from hc_ray.config import BudgetConfig, SolverConfig, TestgenConfig
from hc_ray.errors import LeakError
from hc_ray_actors import sweep
from tests.fakes.engine_server import EngineServer
from tests.fakes.recording import Seen, answer, record
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_task

TOKEN = "hc-ray-canary-0123456789abcdef0123456789abcdef"
OTHER = "hc-ray-canary-fedcba9876543210fedcba9876543210"
SOLVER = SolverConfig(
    samples=2, max_turns=4, max_rounds=2, testgen=TestgenConfig(total_min=3, total_max=6, budget_tokens=600, rounds=1)
)
INSTRUCTION = (
    "Write the file add.py with a function `add(a, b)` that returns the sum of its two numbers.\n\n"
    "Example: `add(3, 2)` returns `5`.\n"
)
ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "in capitals": bytes.upper,
    "as hexadecimal": lambda text: text.hex().encode(),
    "as base64": base64.b64encode,
    "as base64 for URLs": base64.urlsafe_b64encode,
    "as base64 in lines": base64.encodebytes,
    "as base64 in lines of a JSON string": lambda text: base64.encodebytes(text).replace(b"\n", b"\\n"),
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@given(before=st.binary(max_size=90), after=st.binary(max_size=90))
def test_a_token_is_found_however_it_is_written_and_whatever_stands_around_it(encoding, before, after):
    blob = encoding(before + TOKEN.encode() + after)
    assert canaries.find([TOKEN, OTHER], [b"nothing", blob]) == {TOKEN}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_what_is_no_token_is_not_found(encoding):
    near = TOKEN[:-1] + "0"
    assert canaries.find([TOKEN], [encoding(near.encode()), b"hc-ray-canary-", b""]) == frozenset()


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Path, Path]]:
    """A data root with a runner, and a folder for runs that the sandboxes' users can enter."""
    from hc_ray.adapters.runner_build import ensure_runner

    with data_home() as home:
        ensure_runner()
        runs = home / f"canaries-{os.getpid()}"
        runs.mkdir()
        yield home, runs
        shutil.rmtree(runs, ignore_errors=True)


def _run(place: tuple[Path, Path], server: EngineServer, **settings: Any) -> tuple[Path, Seen]:
    home, runs = place
    root = runs / f"run{len(list(runs.iterdir()))}"
    settings = {"solver": SOLVER, "budget": BudgetConfig(tokens=3000), **settings}
    return root, record(root, home, server, lambda folder: make_task(folder, instruction=INSTRUCTION), **settings)


def _readable(path: Path) -> list[bytes]:
    """A file as it is and as it reads unpacked."""
    data = [path.read_bytes()]
    if path.suffix == ".parquet":
        from pyarrow import parquet

        data.append(repr(parquet.read_table(path).to_pylist()).encode())
    if path.suffix in (".tar", ".gz") and tarfile.is_tarfile(path):
        with tarfile.open(fileobj=io.BytesIO(data[0])) as tar:
            data += [tar.extractfile(one).read() for one in tar if one.isfile()]
    return data


def test_a_whole_sweep_leaves_no_canary_outside_of_the_sealed_root(place):
    """Prompts, answers, events, artefacts, tables, the report, MLflow's database and artefacts, the public root."""
    said: list[bytes] = []

    def recorded(body: dict[str, Any]) -> str:
        said.append(repr(body).encode())
        return answer(body)

    with EngineServer(recorded) as server:
        root, seen = _run(place, server, agents=("raw", "hc", "oracle", "nop"), mlflow=True)
    sealed = next((root / "home" / "sealed").iterdir())
    tokens = list(vault.canaries(sealed))
    assert len(tokens) == 1
    hidden = [path.read_bytes() for path in sealed.rglob("*") if path.is_file()]
    assert canaries.find(tokens, hidden) == set(tokens), "nothing was planted"
    assert len(seen.verdicts) == 4 and said
    shown = [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_relative_to(sealed) and "runner" not in path.parts
    ]
    kinds = {path.name for path in shown} | {path.suffix for path in shown}
    assert {"trajectory.json", "matrix.parquet", "submission.tar", "report.html", "mlflow.db", ".jsonl"} <= kinds
    found = [str(path) for path in shown if canaries.find(tokens, _readable(path))]
    assert found == []
    assert canaries.find(tokens, said) == frozenset()


@pytest.mark.parametrize("where", ["an answer", "the journal", "a submission", "the matrix", "a note"])
def test_a_planted_canary_fails_the_run_before_its_trial_is_committed(place, monkeypatch, where):
    planted: dict[str, str] = {"token": ""}

    def plant(plan: sweep.Plan) -> None:
        (planted["token"],) = vault.canaries(Path(plan.sealed_root))

    def says(body: dict[str, Any]) -> str:
        return (
            f"```python\n# {planted['token']}\ndef add(a, b):\n    return a + b\n```"
            if where == "an answer"
            else answer(body)
        )

    _plant(monkeypatch, where, planted)
    with EngineServer(says) as server, pytest.raises(LeakError, match="canary") as raised:
        _run(place, server, agents=("best_of_n",), before_run=plant, solver=SOLVER.model_copy(update={"max_turns": 1}))
    # The message names task and trial, and is no leak itself.
    assert planted["token"] not in str(raised.value)
    newest = max(place[1].iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert not list(newest.glob("out/trials/*/result.json"))


def _plant(monkeypatch: pytest.MonkeyPatch, where: str, planted: dict[str, str]) -> None:
    from hc_ray import runner
    from hc_ray.solve.search import Search
    from hc_ray.solve.workbench import Workbench

    if where == "the journal":
        journal = Search.journal
        monkeypatch.setattr(
            Search,
            "journal",
            lambda self, what, **told: journal(self, what, **told, seen=planted["token"].encode().hex()),
        )
    if where == "a submission":
        difference = Workbench.difference

        async def marked(self: Workbench, name: str, files: dict[str, str]) -> Any:
            return await difference(self, name, {**files, "/srv/found": planted["token"]})

        monkeypatch.setattr(Workbench, "difference", marked)
    if where == "the matrix":
        monkeypatch.setattr(runner, "normal", lambda text: f"{text} {planted['token']}")
    if where == "a note":
        submit = Search.submit

        async def noted(self: Search) -> bool:
            self.notes.append(base64.b64encode(f"saw {planted['token']}".encode()).decode())
            return await submit(self)

        monkeypatch.setattr(Search, "submit", noted)
