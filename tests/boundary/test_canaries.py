import base64
import bz2
import gzip
import io
import json
import lzma
import os
import resource
import sqlite3
import struct
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hc_ray.blind.sealing import archive_scan, canaries
from hc_ray.blind.sealing.canaries import planted_tokens
from hc_ray.domain.config import BudgetConfig, SolverConfig, TestgenConfig
from hc_ray.domain.errors import LeakError
from hc_ray.stores.sweep_directory import parquet
from hc_ray_actors.driver import sweep
from tests.boundary.noninterference.datasets import only_add, swapped
from tests.fakes.canary_search import found_in
from tests.fakes.engine_server import EngineServer
from tests.fakes.figures import tell
from tests.fakes.recording import Seen, record
from tests.fakes.sandbox_home import runs_home
from tests.fakes.tars import make_tar
from tests.fakes.unsteady_model import answer

TOKEN = "hc-ray-canary-0123456789abcdef0123456789abcdef"
OTHER = "hc-ray-canary-fedcba9876543210fedcba9876543210"
SOLVER = SolverConfig(samples=2, max_turns=4, max_rounds=2,
                      testgen=TestgenConfig(total_min=3, total_max=6, budget_tokens=600, rounds=1))  # fmt: skip


def _latin(text: bytes) -> str:
    return text.decode("latin-1")


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "in capitals": bytes.upper,
    "as hexadecimal": lambda text: text.hex().encode(),
    "as hexadecimal in groups": lambda text: text.hex(" ", 2).encode(),
    "as base64": base64.b64encode,
    "as base64 for URLs": base64.urlsafe_b64encode,
    "as base64 in lines": base64.encodebytes,
    "as base64 in lines of a JSON string": lambda text: base64.encodebytes(text).replace(b"\n", b"\\n"),
    "as UTF-16": lambda text: _latin(text).encode("utf-16"),
    "as UTF-16 of the other order": lambda text: _latin(text).encode("utf-16-be"),
    "as UTF-32": lambda text: _latin(text).encode("utf-32"),
    "as a JSON string": lambda text: json.dumps(_latin(text)).encode(),
    "as a JSON string of a JSON string": lambda text: json.dumps(json.dumps(_latin(text))).encode(),
    "as numbers in a JSON string": lambda text: "".join(f"\\u{byte:04X}" for byte in text).encode(),
    "as numbers in a C string": lambda text: "".join(f"\\x{byte:02x}" for byte in text).encode(),
    "in an address": lambda text: "".join(f"%{byte:02X}" for byte in text).encode(),
    "in an address, dashes only": lambda text: text.replace(b"-", b"%2D"),
    "in HTML, dashes only": lambda text: text.replace(b"-", b"&#45;"),
    "backwards": lambda text: text[::-1],
    "backwards as base64": lambda text: base64.b64encode(text)[::-1],
    "backwards as hexadecimal": lambda text: text.hex().encode()[::-1],
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@examples(deadline=None)
@given(before=st.binary(max_size=90), after=st.binary(max_size=90))
def test_a_token_is_found_however_it_is_written_and_whatever_stands_around_it(encoding, before, after):
    assert canaries.find([TOKEN, OTHER], [b"nothing", encoding(before + TOKEN.encode() + after)]) == {TOKEN}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_what_is_no_token_is_not_found(encoding):
    assert canaries.find([TOKEN], [encoding((TOKEN[:-1] + "0").encode()), b"hc-ray-canary-", b""]) == frozenset()


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("first.txt", "first")
        archive.writestr("folder/second.txt", data)
    return buffer.getvalue()


def _tar(data: bytes, mode: str = "w") -> bytes:
    return make_tar({"first": b"first", "folder/second": data}, form=mode)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "the second of two gzip streams": lambda data: gzip.compress(b"first") + gzip.compress(data),
    "zlib": zlib.compress,
    "bzip2": bz2.compress,
    "the second of two bzip2 streams": lambda data: bz2.compress(b"first") + bz2.compress(data),
    "xz": lzma.compress,
    "zip": _zip,
    "tar": _tar,
    "tar.gz": lambda data: _tar(data, "w:gz"),
    "tar.xz": lambda data: _tar(data, "w:xz"),
    "gzip in tar": lambda data: _tar(gzip.compress(data)),
    "gzip below a long path in tar": lambda data: make_tar({"d/" * 200 + "x": gzip.compress(data)}),
    "xz in zip in tar in bzip2": lambda data: bz2.compress(_tar(_zip(lzma.compress(data)))),
    "gzip with rubbish behind it": lambda data: gzip.compress(data) + b"rubbish",
    "gzip cut off": lambda data: gzip.compress(data + os.urandom(50_000))[:-100],
}


@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
@pytest.mark.parametrize("length", [0, 3_000_000])
def test_a_token_is_found_inside_archives(packing, length):
    data = b"q" * length + TOKEN.encode() + b"e" * length
    assert canaries.find([TOKEN, OTHER], [packing(data)]) == {TOKEN}
    assert canaries.find([OTHER], [packing(data)]) == frozenset()


def test_a_token_is_found_in_a_database_whose_pages_cut_it_and_in_a_compressed_table(tmp_path):
    path = tmp_path / "some.db"
    with sqlite3.connect(path) as connection:
        connection.execute('create table "odd ""name" (number integer, text text, data blob)')
        for start in range(4000, 4100):
            connection.execute('insert into "odd ""name" values (1, ?, ?)', ("q" * start + TOKEN, OTHER.encode()))
    assert found_in([TOKEN, OTHER], path.read_bytes()) == {TOKEN, OTHER}
    for packing in (gzip.compress, _tar, lambda data: _tar(_tar(data))):
        assert found_in([TOKEN, OTHER], packing(path.read_bytes())) == {TOKEN, OTHER}
    path.write_bytes(path.read_bytes()[:-5000])
    found_in([TOKEN], path.read_bytes())  # a damaged one raises nothing
    nearly = [{"a": f"{TOKEN[: 16 + n % 30]}zz{TOKEN[16 + n % 30 :]}", "b": n} for n in range(500)]
    ends = [{"a": "a", "b": 0}, {"a": "z", "b": 0}]  # a table's own index names its least and its greatest value
    table = parquet([*ends, *nearly, {"a": TOKEN, "b": 0}])
    assert canaries.find([TOKEN], [table]) == frozenset(), "this table shows what it holds: the test is worth nothing"
    assert found_in([TOKEN], table) == found_in([TOKEN], _tar(table)) == {TOKEN}
    assert found_in([TOKEN], table[:-50]) == frozenset()


@pytest.mark.parametrize("shift", [-60, -20, -1, 0])
def test_a_token_is_found_where_one_piece_of_a_stream_ends(shift):
    blob = b"q" * (archive_scan.CHUNK + shift) + b"\\n".join(TOKEN.encode()[i : i + 1] for i in range(len(TOKEN)))
    assert canaries.find([TOKEN], [blob]) == {TOKEN}


def test_a_quarter_of_a_gigabyte_costs_no_memory(tmp_path):
    path = tmp_path / "huge.bin"
    with path.open("wb") as file:
        file.truncate(1 << 28)
        file.seek(0, os.SEEK_END)
        file.write(gzip.compress(TOKEN.encode()) + TOKEN.encode())
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            assert canaries.find([TOKEN], [file]) == {TOKEN}
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_is_unpacked_up_to_a_bound_only(monkeypatch):
    monkeypatch.setattr(archive_scan, "MAX_BYTES", 8 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    for packed in (bomb, _zip(bomb), _tar(bomb) * 3, bz2.compress(gzip.compress(bytes(64 << 20)))):
        unpacked = [sum(map(len, archive_scan.pieces(stream))) for stream in archive_scan.streams(packed)]
        assert sum(unpacked[1:]) <= (8 << 20) + 2 * archive_scan.CHUNK


def _tar_header(body: bytes) -> bytes:
    """A tar that begins with an extended header."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(body)
    return (
        info.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512) + tarfile.TarInfo("y").tobuf() + bytes(1024)
    )


def _zip_that_lists(entry: bytes, number: int, before: bytes = b"PK\3\4") -> bytes:
    listing, at = entry * number, len(before)
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, len(listing), at)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, at + len(listing), 1)
    return before + listing + end + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[0xFFFF] * 2, *[0xFFFFFFFF] * 2, 0)


def _zip_of_xz(dictionary: int) -> bytes:
    """A zip with one member that takes ``dictionary`` bytes of memory to unpack."""
    body = struct.pack("<BBHBL32x", 9, 4, 5, 0x5D, dictionary)
    local = struct.pack("<4s2B4HL2L2H", b"PK\3\4", 63, 0, 0, 14, 0, 33, 0, len(body), 100, 1, 0) + b"a" + body
    sizes = (len(body), 100, 1)
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 63, 3, 63, 0, 0, 14, 0, 33, 0, *sizes, *[0] * 6) + b"a"
    return _zip_that_lists(entry, 1, local)


@pytest.mark.parametrize(
    "archive",
    [
        _tar_header(b"1" * 100_000),
        _tar_header(b"3 a" * 20_000 + b"="),
        _zip_that_lists(struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 15), 200_000),
        gzip.compress(b"", mtime=0) * 200_000,
        _zip_of_xz(0xFFFFFFF0),
    ],
    ids=["a header of digits", "a header of many records", "a list of many members", "many streams", "much for one"],
)
def test_an_archive_that_is_made_to_take_hours_or_all_memory_takes_neither(archive):
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    tracemalloc.start()
    resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 30), most))
    began = time.thread_time()
    try:
        for stream in archive_scan.streams(archive):
            stream.read()
        assert time.thread_time() - began < 10
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
        tracemalloc.stop()


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Path, Path]]:
    with runs_home() as both:
        yield both


@pytest.fixture(scope="module")
def figures() -> Iterator[Counter[str]]:
    """What was looked at, for docs/trust.md."""
    kept: Counter[str] = Counter()
    yield kept
    tell("canaries", {**kept, "spellings": len(ENCODINGS), "archives": len(PACKINGS) + 2})


def _run(place: tuple[Path, Path], server: EngineServer, **settings: Any) -> tuple[Path, Seen]:
    home, runs = place
    root = runs / f"run{len(list(runs.iterdir()))}"
    settings = {"solver": SOLVER, "budget": BudgetConfig(tokens=3000), **settings}
    return root, record(root, home, server, swapped(only_add, "plain"), **settings)


def _in(tokens: list[str], path: Path) -> frozenset[str]:
    with path.open("rb") as file:
        return found_in(tokens, file)


def test_a_whole_sweep_leaves_no_canary_outside_of_the_sealed_root(place, figures):
    """Prompts, answers, events, artefacts, tables, the report, MLflow's database and artefacts, the public root."""
    said: list[bytes] = []

    def recorded(body: dict[str, Any]) -> str:
        said.append(repr(body).encode())
        return answer(body)

    with EngineServer(recorded) as server:
        root, seen = _run(place, server, agents=("raw", "hc", "oracle", "nop"), mlflow=True)
        wire = list(server.wire)
    sealed = next((root / "home" / "sealed").iterdir())
    tokens = list(planted_tokens(sealed))
    assert len(tokens) == 1
    hidden = [path.read_bytes() for path in sealed.rglob("*") if path.is_file()]
    assert canaries.find(tokens, hidden) == set(tokens), "nothing was planted"
    assert len(seen.verdicts) == 4 and said
    shown = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(sealed)
             and "runner" not in path.parts]  # fmt: skip
    kinds = {path.name for path in shown} | {path.suffix for path in shown}
    assert {"trajectory.json", "matrix.parquet", "submission.tar", "report.html", "mlflow.db", ".jsonl"} <= kinds
    leaking = [str(path) for path in shown if _in(tokens, path)]
    figures["files"], figures["bytes"] = len(shown), sum(path.stat().st_size for path in shown)
    figures["prompts"], figures["leaked"] = len(said), len(leaking)
    assert leaking == [] and canaries.find(tokens, [*said, *wire]) == frozenset()
    _in_mlflow_every_place_is_looked_at(root, tokens[0], figures)


def _in_mlflow_every_place_is_looked_at(root: Path, token: str, figures: Counter[str]) -> None:
    """The same scan finds a token planted as a parameter, a tag, a name, a table, an artefact of MLflow."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{root / 'mlflow.db'}")
    (experiment,) = (one for one in client.search_experiments() if one.name != "Default")
    planted: dict[str, Callable[[str], object]] = {
        "parameter": lambda run: client.log_param(run, "planted", "q" * 5000 + token),
        "tag": lambda run: client.set_tag(run, "planted", token),
        "metric": lambda run: client.log_metric(run, f"planted/{token}", 1.0),
        "name of a run": lambda run: client.update_run(run, name=f"run {token}"),
        "table": lambda run: client.log_text(run, json.dumps({"columns": ["a"], "data": [[token]]}), "planted.json"),
        "artefact": lambda run: client.log_artifact(run, _gzipped(root / "planted.gz", token)),
    }
    for what, plant in planted.items():
        run = client.create_run(experiment.experiment_id)
        plant(run.info.run_id)
        stores = [root / "mlflow.db", *(path for path in (root / "mlartifacts").rglob("*") if path.is_file())]
        found = any(_in([token], path) for path in stores)
        figures.update(planted=1, found=found)
        assert found, what
        client.delete_run(run.info.run_id)
        # Deleted runs stay in the database: the next place must be found by itself.
        token = f"{token[:-4]}{int(token[-4:], 16) ^ (len(what) + 1):04x}"


def _gzipped(path: Path, token: str) -> str:
    path.write_bytes(gzip.compress(b"q" * 1000 + token.encode()))
    return str(path)


PLACES = ("a prompt", "an answer", "the journal", "a submission", "an archive in a submission", "the matrix", "a note",
          "the tracker")  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_a_planted_canary_fails_the_run_before_its_trial_is_committed(place, monkeypatch, figures, where):
    planted: dict[str, str] = {"token": ""}
    tracked: list[Any] = []

    def plant(plan: sweep.Plan) -> None:
        (planted["token"],) = planted_tokens(Path(plan.sealed_root))

    def says(body: dict[str, Any]) -> str:
        return (f"```python\n# {planted['token']}\ndef add(a, b):\n    return a + b\n```" if where == "an answer"
                else answer(body))  # fmt: skip

    _plant(monkeypatch, where, planted)
    monkeypatch.setattr("hc_ray_actors.tracker.Tracker.export", lambda self, summary, status: tracked.append(summary))
    figures["planted"] += 1
    with EngineServer(says) as server, pytest.raises(LeakError, match="canary") as raised:
        _run(place, server, agents=("best_of_n",), before_run=plant, solver=SOLVER.model_copy(update={"max_turns": 1}))
    figures["found"] += 1
    # The message names task and trial, and is no leak itself.
    assert planted["token"] and planted["token"] not in str(raised.value) and tracked == []
    newest = max(place[1].iterdir(), key=lambda path: path.stat().st_mtime_ns)
    if where != "the tracker":  # what the tracker is told comes after the trials
        assert not list(newest.glob("out/trials/*/result.json"))


def _plant(monkeypatch: pytest.MonkeyPatch, where: str, planted: dict[str, str]) -> None:
    from hc_ray.agent.sandbox_forks import SandboxForks
    from hc_ray.search.search import Search
    from hc_ray.selftests import runner
    from hc_ray_actors.driver import results

    if where == "a prompt":
        ask = Search.prompt

        def told(self: Search, slot: Any) -> Any:
            prompt = ask(self, slot)
            if prompt.text is not None:
                return prompt.model_copy(update={"text": f"{prompt.text}# {planted['token']}\n"})
            last = prompt.messages[-1]
            said = last.model_copy(update={"content": f"{last.content}\n{planted['token']}"})
            return prompt.model_copy(update={"messages": (*prompt.messages[:-1], said)})

        monkeypatch.setattr(Search, "prompt", told)
    if where == "the journal":
        journal = Search.journal
        monkeypatch.setattr(
            Search,
            "journal",
            lambda self, what, **told: journal(self, what, **told, seen=planted["token"].encode().hex()),
        )
    if where in ("a submission", "an archive in a submission"):
        hand_in = SandboxForks.hand_in

        async def marked(self: SandboxForks, *words: Any) -> Any:
            difference, living = await hand_in(self, *words)
            text = planted["token"].encode()
            added = text if where == "a submission" else _zip(gzip.compress(text))
            return difference.model_copy(update={"tar": _tar(added)}), living

        monkeypatch.setattr(SandboxForks, "hand_in", marked)
    if where == "the matrix":
        monkeypatch.setattr(runner, "normal", lambda text: f"{text} {planted['token']}")
    if where == "a note":
        submit = Search.hand_in

        async def noted(search: Search) -> bool | None:
            search.notes.append(base64.b64encode(f"saw {planted['token']}".encode()).decode())
            return await submit(search)

        monkeypatch.setattr(Search, "hand_in", noted)
    if where == "the tracker":
        versions = results.versions
        monkeypatch.setattr(results, "versions", lambda: {**versions(), "git_sha": planted["token"][::-1]})
