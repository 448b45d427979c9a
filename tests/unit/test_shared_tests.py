"""What our own tests do with a working directory that a candidate has left, beside processes that may live."""

import importlib
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "configs" / "tasks" / "terminal" / "shared-tests"


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """The modules ``child`` and ``box``, with a working directory and a file that is none of its."""
    monkeypatch.syspath_prepend(str(SHARED))
    for name in ("box", "child"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    child, box = importlib.import_module("child"), importlib.import_module("box")
    (tmp_path / "app" / "sub").mkdir(parents=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "where.txt").write_text("as it was")
    monkeypatch.setattr(child, "WORKDIR", tmp_path / "app")
    yield child, box, tmp_path
    for name in ("box", "child"):
        sys.modules.pop(name, None)


def test_what_a_test_lays_out_goes_through_no_link_of_the_candidate_s(ours):
    child, box, folder = ours
    (folder / "app" / "given.txt").symlink_to(folder / "else" / "where.txt")
    with box.Box({"given.txt": "mine"}, modes={"given.txt": 0o600}) as made:
        assert made.text("given.txt") == "mine" and not Path(made.path("given.txt")).is_symlink()
    done = child.run(["cat", "given.txt"], files={"given.txt": "mine"})
    assert (done.out, done.files["given.txt"]) == ("mine", "mine")
    assert (folder / "else" / "where.txt").read_text() == "as it was"
    assert (folder / "else" / "where.txt").stat().st_mode & 0o777 != 0o600


def test_a_folder_that_is_exchanged_for_a_link_while_it_is_copied_is_not_followed(ours, monkeypatch):
    child, box, folder = ours
    looked = child.os.stat

    def exchanges(name, **how):
        facts = looked(name, **how)
        if name == "sub":
            (folder / "app" / "sub").rename(folder / "aside")
            (folder / "app" / "sub").symlink_to(folder / "else")
        return facts

    with monkeypatch.context() as patch, pytest.raises(OSError, match="sub"):
        patch.setattr(child.os, "stat", exchanges)
        box.Box()
    with box.Box() as made:
        assert Path(made.path("sub")).is_symlink() and made.tree() == {"sub": ("link", str(folder / "else"))}


def test_a_copy_has_the_modes_times_and_links_of_the_working_directory(ours):
    child, box, folder = ours
    script = folder / "app" / "sub" / "run.sh"
    script.write_text("echo ran")
    script.chmod(0o750)
    (folder / "app" / "link").symlink_to("sub/run.sh")
    with box.Box() as made:
        assert made.tree()["sub/run.sh"] == ("file", 0o750) and made.tree()["link"] == ("link", "sub/run.sh")
        assert Path(made.path("sub/run.sh")).stat().st_mtime_ns == script.stat().st_mtime_ns
        assert made.run(["sh", "link"]).out == "ran\n"
    assert child.run(["sh", "link"]).out == "ran\n"
