import os
import subprocess
import sys
import tempfile
import time

import pytest

from hc_ray.machine import cleanup
from hc_ray.machine.owner import current_owner, is_gone, is_leftover, label, machine

DEAD = f"999999999-1@{machine()}"
OTHERS = ["999999999-1@another-host:1", "999999999-1", "nobody", f"x-1@{machine()}", ""]
"""Labels that this machine cannot judge."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _folder(place, name, said):
    folder = place / name
    folder.mkdir()
    (folder / "engine.log").write_text("x")
    if said is not None:
        (folder / cleanup.OWNER_FILE).write_text(said)
    return folder


def test_only_a_dead_owner_of_this_machine_leaves_leftovers():
    assert is_leftover(DEAD) and is_gone("999999999-1-solve")
    assert not any(is_leftover(said) for said in [label(), f"{current_owner()}-solve@{machine()}", *OTHERS])


def test_a_dead_owners_folder_is_removed_and_whatever_merely_looks_like_one_is_not(place):
    mine, dead = cleanup.owned_folder("engine"), _folder(place, "hc-ray-engine-dead", DEAD)
    kept = [_folder(place, f"hc-ray-engine-{number}", said) for number, said in enumerate(OTHERS)]
    kept += [_folder(place, "hc-ray-engine-plain", None), _folder(place, "other-engine", DEAD), mine]
    link = place / "hc-ray-engine-link"
    link.symlink_to(_folder(place, "elsewhere", DEAD))
    file = place / "hc-ray-engine-file"
    file.write_text(DEAD)
    label_elsewhere = _folder(place, "hc-ray-engine-linked-label", None)
    (label_elsewhere / cleanup.OWNER_FILE).symlink_to(dead / cleanup.OWNER_FILE)
    assert str(dead) in cleanup.reap_folders(dry=True) and dead.is_dir()
    assert str(dead) in cleanup.reap_folders() and not dead.exists()
    assert all(folder.is_dir() for folder in (*kept, link, label_elsewhere)) and file.is_file()
    assert not any(str(place) in name for name in cleanup.reap_folders()) and mine.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_who_writes_into_a_dead_owners_folder_is_killed_and_who_reads_there_is_not(place):
    """A process that wrote its title over its environment has lost its label."""
    dead, alive = _folder(place, "hc-ray-ray-dead", DEAD), cleanup.owned_folder("ray")
    (alive / "engine.log").touch()

    def start(folder, mode):
        with (folder / "engine.log").open(mode) as log:
            return subprocess.Popen(["sleep", "600"], env={"PATH": os.defpath}, stdin=log if mode == "r" else None,
                                    stdout=log if mode == "a" else subprocess.DEVNULL)  # fmt: skip

    writer, others = start(dead, "a"), [start(dead, "r"), start(alive, "a")]
    try:
        named = f"process {writer.pid} sleep"
        assert named in cleanup.reap_processes(dry=True) and writer.poll() is None
        assert named in cleanup.reap_processes() and writer.wait(10) == -9
        time.sleep(0.1)
        assert all(other.poll() is None for other in others)
    finally:
        for one in (writer, *others):
            one.kill()
            one.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_dead_owners_processes_are_killed_and_those_of_others_are_not():
    def start(said):
        environment = {"PATH": os.defpath, **({} if said is None else {cleanup.OWNER_VARIABLE: said})}
        return subprocess.Popen(["sleep", "600"], env=environment)

    dead, others = start(DEAD), [start(said) for said in [label(), None, *OTHERS]]
    try:
        named = f"process {dead.pid} sleep"
        until = time.monotonic() + 10  # until then the child may still be a copy of this process
        while named not in cleanup.reap_processes(dry=True) and time.monotonic() < until:
            time.sleep(0.02)
        assert dead.poll() is None and named in cleanup.reap_processes() and dead.wait(10) == -9
        time.sleep(0.1)
        assert all(other.poll() is None for other in others)
        assert not any(str(other.pid) in line.split() for other in others for line in cleanup.reap_processes())
    finally:
        for process in (dead, *others):
            process.kill()
            process.wait()


def test_scratch_of_a_killed_build_is_removed_unless_somebody_builds(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    (tmp_path / "runner" / ".build-1").mkdir(parents=True)
    (tmp_path / "runner" / "abc").mkdir()
    (tmp_path / "probe" / "new").mkdir(parents=True)
    old = tmp_path / "probe" / "old"
    old.mkdir()
    os.utime(old, (1, 1))
    with (tmp_path / "runner" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cleanup.reap_scratch() == [str(old)]
    assert cleanup.reap_scratch(dry=True) == [str(tmp_path / "runner" / ".build-1")]
    assert cleanup.reap_scratch() == [str(tmp_path / "runner" / ".build-1")] and cleanup.reap_scratch() == []
    assert (tmp_path / "runner" / "abc").is_dir() and (tmp_path / "probe" / "new").is_dir()
