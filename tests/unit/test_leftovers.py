import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from hc_ray.cli import app as cli
from hc_ray.machine import cleanup, owner
from hc_ray.machine.owner import current_owner, is_alive, is_leftover, label, machine, on_own_disk
from hc_ray_actors.jobs import doctor
from tests.fakes.processes import wait

DEAD = f"999999999-1@{machine()}"
BOOT, NAMESPACE = machine().split(":")
COMPUTER = label().removeprefix(f"{current_owner()}@{machine()}")
OTHERS = ["999999999-1@another-host:1", "999999999-1", "nobody", f"x-1@{machine()}", "", f"999999999-1@{BOOT}:1",
          f"x-1@{uuid.uuid4()}:{NAMESPACE}", f"{current_owner()}@{uuid.uuid4()}:{NAMESPACE}@another"]  # fmt: skip
"""Labels that this machine cannot judge. The last is of a computer that came to one of its disks over the network."""
EARLIER = [f"{current_owner()}@{uuid.uuid4()}:{NAMESPACE}{computer}" for computer in ("", COMPUTER)]
"""Of an earlier boot; where others can write, it may be another machine's."""


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


def test_a_computer_is_another_by_the_address_of_its_wires_and_none_by_that_of_the_network_that_it_joins(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(owner, "_NETWORK", tmp_path)
    for name in ("eth0/device", "wlan0/device", "wlan0/phy80211", "lo"):
        (tmp_path / name).mkdir(parents=True)
    seen = {}
    for name in ("lo", "eth0", "wlan0"):
        (tmp_path / name / "address").write_text("00:00:00:00:00:01\n")
    for name in ("lo", "eth0", "wlan0"):
        before = owner._computer.__wrapped__()
        (tmp_path / name / "address").write_text("00:00:00:00:00:02\n")
        seen[name] = owner._computer.__wrapped__() != before
    assert seen == {"lo": False, "eth0": True, "wlan0": False}


def test_only_a_dead_owner_of_this_machine_leaves_leftovers():
    assert all(map(is_leftover, (DEAD, f"{DEAD}{COMPUTER}", f"999999999-1-solve@{machine()}")))
    others = [label(), f"{current_owner()}-solve@{machine()}", *OTHERS]
    assert not any(is_leftover(said, own=own) for said in others for own in (True, False))
    assert all(is_leftover(said, own=True) and not is_leftover(said) for said in EARLIER)


def test_a_machine_is_a_boot_and_a_pid_namespace_and_its_disks_are_those_that_no_other_can_write_to(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(socket, "gethostname", lambda: "twin")
    assert machine() == f"{BOOT}:{NAMESPACE}" and Path("/proc/sys/kernel/random/boot_id").read_text().strip() == BOOT
    assert on_own_disk(tmp_path)
    mounts = Path("/proc/self/mounts").read_text() + f"nas:/home {tmp_path}/net\\040home nfs4 rw 0 0\n"
    monkeypatch.setattr(owner.Path, "read_text", lambda path: mounts)
    (tmp_path / "link").symlink_to(tmp_path / "net home/ours")
    assert not on_own_disk(tmp_path / "net home/ours") and not on_own_disk(tmp_path / "link") and on_own_disk(tmp_path)


def test_a_dead_owners_folder_is_removed_and_whatever_merely_looks_like_one_is_not(place):
    mine, dead = cleanup.owned_folder("engine"), _folder(place, "hc-ray-engine-dead", DEAD)
    kept = [_folder(place, f"hc-ray-engine-{number}", said) for number, said in enumerate(OTHERS)]
    kept += [_folder(place, "hc-ray-engine-plain", None), _folder(place, "other-engine", DEAD), mine]
    earlier = [_folder(place, f"hc-ray-engine-earlier-{number}", said) for number, said in enumerate((*EARLIER, "\0"))]
    os.utime(earlier[-1], (1, 1))  # its label never came to the disk
    link = place / "hc-ray-engine-link"
    link.symlink_to(_folder(place, "elsewhere", DEAD))
    file = place / "hc-ray-engine-file"
    file.write_text(DEAD)
    label_elsewhere = _folder(place, "hc-ray-engine-linked-label", None)
    (label_elsewhere / cleanup.OWNER_FILE).symlink_to(dead / cleanup.OWNER_FILE)
    assert str(dead) in cleanup.reap_folders(dry=True) and dead.is_dir()
    assert str(dead) in cleanup.reap_folders() and not dead.exists()
    assert not any(folder.exists() for folder in earlier)
    assert all(folder.is_dir() for folder in (*kept, link, label_elsewhere)) and file.is_file()
    assert not any(str(place) in name for name in cleanup.reap_folders()) and mine.stat().st_mode & 0o777 == 0o700


def test_a_dead_owners_processes_and_who_writes_into_its_folder_are_killed_and_nobody_else(place, sleeper):
    dead, alive = _folder(place, "hc-ray-ray-dead", DEAD), cleanup.owned_folder("ray")
    (alive / "engine.log").touch()

    def labelled(said):
        return sleeper(env={"PATH": os.defpath, cleanup.OWNER_VARIABLE: said})

    def opens(folder, mode):
        """Without a label, as a process that wrote its title over its environment."""
        with (folder / "engine.log").open(mode) as log:
            return sleeper(env={"PATH": os.defpath}, stdin=log if mode == "r" else None,
                           stdout=log if mode == "a" else subprocess.DEVNULL)  # fmt: skip

    killed = [labelled(DEAD), opens(dead, "a")]
    others = [opens(dead, "r"), opens(alive, "a"), *map(labelled, (label(), *OTHERS))]
    named = {f"process {one.pid} sleep" for one in killed}
    wait(lambda: named <= {*cleanup.reap_processes(dry=True)}, 10, "a child, which may still be a copy of this process")
    assert all(one.poll() is None for one in killed) and named <= {*cleanup.reap_processes()}
    assert [one.wait(10) for one in killed] == [-9, -9]
    time.sleep(0.1)
    assert all(other.poll() is None for other in others)
    assert not any(str(other.pid) in line.split() for other in others for line in cleanup.reap_processes())


def test_scratch_of_a_killed_build_or_download_is_removed_when_nobody_can_be_at_work_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    old = [tmp_path / name for name in ("models/tiny/.pull-1", "runner/.build-1")]
    for folder in (*old, tmp_path / "runner/abc", tmp_path / "runner/.build-2"):
        folder.mkdir(parents=True)
    for folder in (*old, tmp_path / "runner/abc"):
        os.utime(folder, (1, 1))
    assert cleanup.reap_scratch(dry=True) == [*map(str, old)]
    assert cleanup.reap_scratch() == [*map(str, old)] and cleanup.reap_scratch() == []
    assert all((tmp_path / name).is_dir() for name in ("runner/abc", "runner/.build-2"))


def test_scratch_on_a_shared_disk_whose_clock_may_be_hours_off_is_left_alone_for_a_day(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    monkeypatch.setattr(cleanup, "on_own_disk", lambda folder: False)
    for hours in (3, 30):
        (folder := tmp_path / f"models/tiny/.pull-{hours}").mkdir(parents=True)
        os.utime(folder, (0, time.time() - hours * 3600))
    assert cleanup.reap_scratch() == [str(tmp_path / "models/tiny/.pull-30")]


def test_this_process_is_alive_the_next_holder_of_its_number_another_and_a_malformed_name_nobodys():
    owner = current_owner()
    assert owner == current_owner() and owner.startswith(f"{os.getpid()}-")
    assert is_alive(owner) and is_alive(f"{owner}-solve")
    number, start = current_owner().split("-")
    assert not is_alive(f"{number}-{int(start) + 1}")
    assert not any(is_alive(name) for name in ("", "-", "1", "x-1", "1-x", "12--3", "users", f"{os.getpid()}-"))


def test_a_process_that_ended_is_dead_even_before_it_is_collected() -> None:
    script = "from hc_ray.machine.owner import current_owner; print(current_owner())"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    owner = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(owner)
    child.wait()
    child.stdout.close()
    assert not is_alive(owner)


def test_doctor_names_what_died_and_fix_runs_the_remedies_that_are_commands_of_hc_ray(place, monkeypatch, capsys):
    dead, theirs = _folder(place, "hc-ray-engine-dead", DEAD), doctor.Finding(
        name="home", ok=False, says="not writable", remedy=f"touch {place}/run-by-doctor"
    )  # fmt: skip
    monkeypatch.setattr(
        doctor, "examine", lambda: [theirs, doctor._tried("leftovers", doctor._leftovers, "hc-ray clean")]
    )
    assert cli.run(["doctor"]) == 1
    out, err = capsys.readouterr()
    # How many there are and whether new ones come, other tests at work on this machine decide.
    assert "from dead hc-ray processes" in out and "leftovers: hc-ray clean" in out and not err
    assert dead.exists()
    assert cli.run(["doctor", "--fix", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [one["name"] for one in json.loads(out)["findings"]] == ["home", "leftovers"]
    assert err.splitlines()[0] == "hc-ray clean" and str(dead) in err
    assert not dead.exists() and not (place / "run-by-doctor").exists()
