"""What a verifier looks for before anything is written: the canaries of what is sealed on its node."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from hc_ray.blind.sealing import vault
from hc_ray.domain.errors import LeakError, VerifierError
from hc_ray.domain.events import ErrorEvent
from hc_ray_actors.driver.leak_scan import AT_ONCE, LeakScan
from hc_ray_actors.verifiers import Verifiers
from tests.fakes import crew
from tests.fakes.tasks import TEST_SH, make_task


@pytest.fixture
def read(monkeypatch):
    """The sealed settings that were read, in order."""
    seen = []
    read_bytes = Path.read_bytes

    def told(path):
        if path.name == vault.VERIFIER_FILE:
            seen.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", told)
    return seen


def _tokens(dataset: vault.SealedDataset, root: Path) -> set[str]:
    return {vault.load_spec(root / "sealed", task.digest).canary for task in dataset.tasks}


@pytest.fixture
def sealed(tmp_path):
    """Two tasks, sealed: a verifier of theirs, and how to seal them again."""
    for name in ("one", "two"):
        make_task(tmp_path / "set", name, instruction=f"Write {name}.py.\n")
    roots = tmp_path / "public", tmp_path / "sealed"
    return lambda: vault.seal(tmp_path / "set", *roots), Verifiers("bwrap", str(roots[0]), str(roots[1]), 1)


async def test_sealed_settings_are_read_once_and_where_they_cannot_be_as_soon_as_they_can(sealed, read, tmp_path):
    seal, verifiers = sealed
    tokens = sorted(_tokens(seal(), tmp_path))
    read.clear()
    for _ in range(5):
        assert await verifiers.leaks([b"nothing"]) == []
        assert len(await verifiers.leaks([f"{tokens[0]} {tokens[1]}".encode()])) == 2
    assert len(read) == 2
    token = tokens[0]
    (digest,) = await verifiers.leaks([token.encode()])
    file = tmp_path / "sealed" / digest / vault.VERIFIER_FILE
    whole = file.read_bytes()
    file.write_bytes(b"{")
    assert await verifiers.leaks([token.encode()]) == []
    file.write_bytes(whole)
    assert await verifiers.leaks([token.encode()]) == [digest]


async def test_what_is_sealed_anew_or_later_is_looked_for_and_read_alone_and_what_is_gone_is_not(
    sealed, read, tmp_path
):
    seal, verifiers = sealed
    before = seal()
    tokens = _tokens(before, tmp_path)
    await verifiers.leaks([b"nothing"])
    (tmp_path / "set/one/tests/test.sh").write_text(TEST_SH + "true\n")
    after = seal()
    (digest,) = (one for one, sealed in after.sealed_digests.items() if sealed != before.sealed_digests[one])
    anew = _tokens(after, tmp_path)
    (old,), (new,) = tokens - anew, anew - tokens
    read.clear()
    assert await verifiers.leaks([new.encode()]) == [digest] and await verifiers.leaks([old.encode()]) == []
    assert [path.parent.name for path in read] == [digest]
    make_task(tmp_path / "set", "three", instruction="Write three.py.\n")
    (later,) = _tokens(seal(), tmp_path) - anew
    (digest,) = await verifiers.leaks([later.encode()])
    shutil.rmtree(tmp_path / "sealed" / digest)
    assert await verifiers.leaks([later.encode()]) == []


class Talkative(crew.Stage):
    """Its one trial tells of ``told`` events before it ends; a verifier finds ``TOKEN``. ``away``: calls of a verifier
    that fail before one succeeds."""

    def __init__(self, told, away=0):
        super().__init__()
        self.told, self.away, self.seen = told, away, []
        self.own = {"Trials": _Trials, "Verifiers": _Verifiers}


class _Trials(crew._Trials):
    telling = given = None

    async def solve(self, key, task):
        self.telling = key.name
        step = await super().solve(key, task)
        while self.stage.told:
            await asyncio.sleep(0.01)
        return step

    async def told(self, wait=1.0):
        said = await super().told(wait)
        if self.given:  # who asks again has them
            self.stage.told = []
        self.given = self.stage.told if self.telling else []
        return [*said, *(ErrorEvent(trial=self.telling, text=text) for text in self.given)]


class _Verifiers(crew._Verifiers):
    async def leaks(self, blobs):
        if self.stage.away:
            self.stage.away -= 1
            raise VerifierError("away")
        self.stage.seen.append(list(blobs))
        return ["d" * 64] if any(TOKEN.encode() in blob for blob in blobs) else []


TOKEN = "a-canary-of-the-sealed-files"


@pytest.mark.parametrize("away", [0, 2])
def test_the_events_of_a_long_trial_are_searched_a_part_at_a_time_and_each_of_them_once(tmp_path, away):
    told = [f"event {number} of many" for number in range(3 * AT_ONCE)]
    stage = Talkative(told, away)
    ended, _ = crew.run(crew.plan_of(tmp_path, tasks=1), stage)
    assert (ended.done, ended.unscored) == (1, 0)
    searched = [
        text for blobs in stage.seen for blob in blobs for text in re.findall(r"event \d+ of many", blob.decode())
    ]
    assert sorted(searched) == sorted(told)
    if not away:
        assert max(len(blobs) for blobs in stage.seen) <= AT_ONCE


def test_a_canary_among_the_first_events_of_a_long_trial_ends_the_sweep(tmp_path):
    told = [f"event {number}" for number in range(3 * AT_ONCE)]
    told[3] += TOKEN
    with pytest.raises(LeakError, match=r"trial t0\S+ contains a canary"):
        crew.run(crew.plan_of(tmp_path, tasks=1), stage := Talkative(told))
    assert len(stage.seen) > 2 and not list(tmp_path.glob("trials/*/result.json"))


class _Crew:
    has_verifiers = True

    def __init__(self):
        self.may, self.seen = asyncio.Event(), []

    async def verify(self, task, work):
        return await work(self)

    async def leaks(self, blobs):
        await self.may.wait()
        self.seen += blobs
        return []


@pytest.mark.parametrize("begun", [True, False])
async def test_what_a_cancelled_search_did_not_see_the_last_one_sees(begun):
    played = _Crew()
    scan = LeakScan(lambda: played)
    told = [f"event {number}".encode() for number in range(AT_ONCE + 10)]
    for one in told:
        scan.hear("t", one)
    ending = [asyncio.ensure_future(scan.end_of("t", [b"result"]))]
    if begun:
        await asyncio.sleep(0.01)
    else:
        (early,) = scan._early["t"]
        early.cancel()
    ending[0].cancel()
    await asyncio.gather(*ending, return_exceptions=True)
    scan.hear("u", b"another")
    ending = [asyncio.ensure_future(scan.end_of("u", []))]
    await asyncio.sleep(0.01)
    ending[0].cancel()
    await asyncio.gather(*ending, return_exceptions=True)
    played.may.set()
    await scan.rest([b"report"])
    assert sorted(played.seen) == sorted([*told, b"another", b"report"])
