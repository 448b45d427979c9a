"""What a verifier looks for before anything is written: the canaries of what is sealed on its node."""

import shutil
from pathlib import Path

import pytest

from hc_ray.blind.sealing import vault
from hc_ray_actors.verifiers import Verifiers
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


@pytest.fixture
def sealed(tmp_path):
    """Two tasks, sealed: a verifier of theirs, and how to seal them again."""
    for name in ("one", "two"):
        make_task(tmp_path / "set", name, instruction=f"Write {name}.py.\n")
    roots = tmp_path / "public", tmp_path / "sealed"
    return lambda: vault.seal(tmp_path / "set", *roots), Verifiers("bwrap", str(roots[0]), str(roots[1]), 1)


async def test_sealed_settings_are_read_once_and_where_they_cannot_be_as_soon_as_they_can(sealed, read, tmp_path):
    seal, verifiers = sealed
    tokens = seal().canaries
    read.clear()
    for _ in range(5):
        assert await verifiers.leaks([b"nothing"]) == []
        assert len(await verifiers.leaks([f"{tokens[0]} {tokens[1]}".encode()])) == 2
    assert len(read) == 2
    seal, verifiers = sealed
    token = seal().canaries[0]
    ((digest, *_),) = [await verifiers.leaks([token.encode()])]
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
    await verifiers.leaks([b"nothing"])
    (tmp_path / "set/one/tests/test.sh").write_text(TEST_SH + "true\n")
    after = seal()
    (digest,) = after.replaced
    (old,), (new,) = set(before.canaries) - set(after.canaries), set(after.canaries) - set(before.canaries)
    read.clear()
    assert await verifiers.leaks([new.encode()]) == [digest] and await verifiers.leaks([old.encode()]) == []
    assert [path.parent.name for path in read] == [digest]
    make_task(tmp_path / "set", "three", instruction="Write three.py.\n")
    (later,) = set(seal().canaries) - set(after.canaries)
    (digest,) = await verifiers.leaks([later.encode()])
    shutil.rmtree(tmp_path / "sealed" / digest)
    assert await verifiers.leaks([later.encode()]) == []
