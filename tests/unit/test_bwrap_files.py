import os
from pathlib import Path

import pytest

from hc_ray.domain.filetree import Change, Member
from hc_ray.sandboxes.bwrap.command import Layout
from hc_ray.sandboxes.bwrap.copy import remove_tree
from hc_ray.sandboxes.bwrap.files import RootTree
from hc_ray.sandboxes.descriptors import MAX_DEPTH
from hc_ray.sandboxes.tree_size import folder_size


@pytest.fixture
def host(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("host")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "tool").write_text("tool")
    for name in ("root", "root/app", "root/usr", "root/proc"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def tree(host):
    return RootTree(host / "root", Layout(mounts={"/usr": host / "programs"}), None)


def file(path, data=b"x", mode=0o644):
    return Member(path, "file", mode, data=data)


def test_links_are_resolved_inside_the_root_whatever_they_name(tree, host):
    tree.write(file("/secret", b"inside"))
    inside = {"up": "../../../../../../../secret", "root": "/secret", "chain": "root"}
    nowhere = {"absolute": str(host / "outside" / "secret"), "loop": "loop"}
    for name, target in (inside | nowhere).items():
        tree.write(Member(f"/app/{name}", "link", target=target))
    assert [tree.read(f"/app/{name}", 100) for name in inside] == [b"inside"] * 3
    assert [tree.read(f"/app/{name}", 100) for name in nowhere] == [None] * 2


def test_a_link_leads_into_the_root_only_and_a_write_takes_its_place_instead_of_going_through(tree, host):
    tree.write(Member("/app/out", "link", target=str(host / "outside")))
    tree.write(file("/app/out/new"))
    assert sorted(path.name for path in (host / "outside").iterdir()) == ["secret"]
    inside = host / "root" / str(host / "outside").lstrip("/")
    assert (inside / "new").read_text() == "x"
    tree.remove("/app/out/new")
    assert not (inside / "new").exists()
    tree.write(Member("/app/l", "link", target=str(host / "outside" / "secret")))
    tree.write(file("/app/l", b"mine"))
    assert (host / "outside" / "secret").read_text() == "host"
    assert tree.read("/app/l", 10) == b"mine" and not (host / "root/app/l").is_symlink()


def test_a_change_removes_first_and_writes_then_and_programs_of_the_host_are_only_read(tree, host):
    tree.write(file("/app/d/e"))
    tree.apply(Change(members=(file("/app/d", b"now a file", 0o600),), deleted=("/app/d/e", "/app/d", "/app/never")))
    assert tree.read("/app/d", 100) == b"now a file"
    tree.apply(Change(members=(Member("/app/d", "folder", 0o700), file("/app/d/f")), deleted=()))
    assert tree.read("/app/d/f", 100) == b"x"
    assert tree.read("/usr/tool", 2) == b"to"
    tree.write(Member("/bin", "link", target="usr"))
    assert tree.read("/bin/tool", 10) == b"tool"
    for path in ("/usr/tool", "/bin/tool", "/usr/new", "/usr/deep/new", "/proc/x"):
        with pytest.raises(OSError):
            tree.write(file(path))
        tree.remove(path)
    assert (host / "programs" / "tool").read_text() == "tool"


def test_a_tree_that_nests_without_end_is_an_error_of_its_maker(tree, host):
    here = Path.cwd()
    try:
        os.chdir(host / "root" / "app")
        for _ in range(MAX_DEPTH + 100):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)
    for look in (lambda: tree.changes({}, 1 << 30), lambda: folder_size(host / "root")):
        with pytest.raises(ValueError, match="nest"):
            look()
    remove_tree(host / "root")
    assert not (host / "root").exists()


def test_a_copy_keeps_holes_modes_and_links_and_is_apart(tree, host):
    with (host / "root/app/sparse").open("wb") as made:
        made.write(b"a" * 5000)
        made.truncate(64 << 20)
        made.seek(32 << 20)
        made.write(b"b")
    tree.write(file("/app/run", mode=0o755))
    tree.write(Member("/app/link", "link", target="run"))
    os.mkfifo(host / "root/app/pipe")
    (host / "root/usr/unseen").touch()
    (host / "copy").mkdir()
    copy = RootTree(host / "copy", Layout(), None)
    tree.copy_to(copy)
    state = (host / "copy/app/sparse").stat()
    assert state.st_size == 64 << 20 and state.st_blocks * 512 < 1 << 20
    assert (host / "copy/app/sparse").read_bytes() == (host / "root/app/sparse").read_bytes()
    assert (host / "copy/app/run").stat().st_mode & 0o777 == 0o755
    assert (host / "copy/app/link").readlink() == Path("run") and not (host / "copy/app/pipe").exists()
    assert folder_size(host / "copy")[0] >= 64 << 20
    copy.write(file("/app/run", b"changed"))
    assert tree.read("/app/run", 10) == b"x"
    assert [one.name for one in (host / "copy").iterdir()] == ["app"], "what lies under a mount, nobody sees"
    copy.clear_way()
    assert {one.name for one in (host / "copy").iterdir()} == {"app", "proc", "dev", "sys"}
