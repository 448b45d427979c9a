"""What a power cut leaves of a sweep directory, and how a resume takes it up."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import OutputError, StoreError, VerifierError
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver import results, resumption
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.driver.resumption import reconcile, stored_config
from tests.fakes.crew import Stage, Watcher, failing, plan_of, results_of, run, sweep
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_task


class Disk:
    """The machine's own disk, with its order of writes written down: what is not synced when the power goes may be
    lost, a new name before what it names."""

    def __init__(self, root):
        self._root, self._fsync, self._replace = root, os.fsync, os.replace
        self.order = []
        self.refuses = {}
        """What cannot be synced (``file``, ``folder``), and by which error."""

    def fsync(self, file):
        path = Path(f"/proc/self/fd/{file}").readlink()
        if number := self.refuses.get("folder" if path.is_dir() else "file"):
            raise OSError(number, os.strerror(number))
        self._fsync(file)
        self._note("sync", path)

    def replace(self, source, target):
        self._replace(source, target)
        self._note("name", Path(target))

    def _note(self, what, path):
        if not path.is_relative_to(self._root.parent):
            return  # a lease of another test's is renewed
        where = os.path.relpath(path, self._root)
        self.order.append(f"{what} {re.sub(r'[.][0-9]+[.]tmp$', ' under another name', where)}")


@pytest.fixture
def disk(tmp_path, monkeypatch):
    disk = Disk(tmp_path / "out")
    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(os, "replace", disk.replace)
    return disk


@pytest.fixture
def store(tmp_path):
    return SweepStore(str(tmp_path / "out"))


def test_a_result_is_on_the_disk_before_its_name_and_its_name_before_the_sweep_goes_on(disk, store):
    store.write("trials/t__1/result.json", b"{}")
    assert disk.order == ["sync trials/t__1/result.json under another name", "name trials/t__1/result.json",
                          "sync trials/t__1", "sync trials", "sync .", "sync .."]  # fmt: skip
    disk.order.clear()
    store.write("trials/t__2/result.json", b"{}")
    assert disk.order[2:] == ["sync trials/t__2", "sync trials"], "of a second trial its own names alone"
    store.write("events/000000.jsonl", b"{}")
    store.sync("events/000000.jsonl")
    assert disk.order[-3:] == ["sync events/000000.jsonl", "sync events", "sync ."]
    disk.order.clear()
    assert store.claim("epochs/000001", b"a")
    assert disk.order == ["sync epochs/000001 under another name", "sync epochs", "sync ."]


@pytest.mark.parametrize(("path", "synced"), [
    ("sweep.json", True), ("lease.json", True), ("suites/abc.json", True), ("events/000000.jsonl", False),
    ("report.md", False), ("trials/t__1/artifacts/submission.tar", False),
])  # fmt: skip
def test_what_a_resume_builds_on_is_on_the_disk_too_and_what_is_only_looked_at_waits_for_none(
    disk, store, path, synced
):
    store.write(path, b"{}")
    assert disk.order[: 1 + synced] == [f"sync {path} under another name"] * synced + [f"name {path}"]
    assert f"sync {Path(path).parent}" in disk.order if synced else len(disk.order) == 1


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_claimed_once_and_whole_where_there_are_second_names_and_where_not(
    store, tmp_path, links, monkeypatch
):
    def refuse(path, target):
        raise OSError(errno.EPERM, "not permitted")

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert [store.claim("epochs/000001", data) for data in (b"a", b"b")] == [True, False]
    assert [file.read_bytes() for file in (tmp_path / "out/epochs").iterdir()] == [b"a"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_a_file_system_that_cannot_sync_folders_is_no_reason_to_stop(disk, store, number):
    disk.refuses = {"folder": number}
    store.write("trials/t__1/result.json", b"{}")
    assert store.read("trials/t__1/result.json") == b"{}"


def test_a_disk_that_does_not_take_a_result_leaves_nothing_of_it(disk, store, tmp_path):
    disk.refuses = {"file": errno.ENOSPC}
    with pytest.raises(StoreError, match=r"the disk is full: could not write trials/t__1/result\.json"):
        store.write("trials/t__1/result.json", b"{}")
    assert list((tmp_path / "out/trials/t__1").iterdir()) == []


@pytest.fixture
def cut(tmp_path):
    """A sweep of four trials; the results of two were lost with the power."""
    out = tmp_path / "out"
    run(plan_of(out, 4), Stage())
    empty, half = sorted(out.glob("trials/t[01]__*/result.json"))
    empty.write_bytes(b"")
    half.write_bytes(half.read_bytes()[:-40])
    return out


def test_a_result_is_torn_that_lacks_its_end_or_has_zeros_in_it(store):
    whole = b'{\n "task_name": "t",\n "agent_info": {\n  "name": "hc"\n }\n}'
    cuts = (b"", whole[:-1], whole[:-3], whole.replace(b"hc", b"\0\0"), whole[:20] + bytes(40), b"[1]")
    for number, data in enumerate((whole, *cuts)):
        store.write(f"trials/{number}/result.json", data)
    assert resumption._torn(store, set(map(str, range(7)))) == set("123456")


def test_a_result_that_is_empty_or_cut_off_is_not_finished_and_is_kept_beside_the_one_of_its_second_run(cut):
    (half,) = cut.glob("trials/t1__*/result.json")
    before, stage, plan = half.read_bytes(), Stage(), plan_of(cut, 4)
    (note,) = plan.notes
    assert re.fullmatch(r"1 result cannot be read \(t1__\w+\): each such trial runs again", note)
    assert (plan.done, plan.found.unscored) == (2, ())
    summary, _ = run(plan, stage)
    assert (summary.done, summary.unscored, summary.stopped) == (4, 0, False)
    assert sorted(name for method, name in stage.calls if method == "solve") == ["t0", "t1"]
    assert len(results_of(cut)) == 4 and plan_of(cut, 4).notes == ()
    assert half.with_name("result.unreadable").read_bytes() == before
    assert json.loads(half.read_bytes())["task_name"] == "t1"
    assert len(list(cut.glob("trials/*/result.unreadable"))) == 1


def test_the_plan_of_a_resume_holds_that_line(tmp_path):
    make_task(tmp_path / "set")
    config = SweepConfig(dataset=str(tmp_path / "set"), agents=("nop",), sandbox="bwrap", out=str(tmp_path / "out"))
    with data_home():
        plan = prepare(config)
        store = SweepStore(plan.out)
        results.write_sweep(store, plan, 0)
        store.write(f"trials/{plan.trials[0].name}/result.json", b"half")
        again = prepare(config, resume=True)
    assert (again.done, again.found.torn) == (0, (plan.trials[0].name,))
    assert [note for note in again.notes if "runs again" in note]


def test_a_report_after_a_resume_that_did_not_come_to_them_knows_of_no_such_results(cut):
    assert sweep.run(plan_of(cut, 4), events=Watcher(), cluster=Stage(), max_trials=1).done == 3


def test_an_empty_result_on_an_object_store_is_not_finished_and_no_result_is_fetched_to_see_that(cut, monkeypatch):
    read = []
    monkeypatch.setattr(SweepStore, "locks", property(lambda store: False))
    original = SweepStore.read
    monkeypatch.setattr(SweepStore, "read", lambda store, path: read.append(path) or original(store, path))
    assert plan_of(cut, 4).done == 3  # one that is cut off cannot be there: it is whole or absent
    assert [path for path in read if path.endswith("result.json")] == []


@pytest.mark.parametrize("left", [b"", b"half of a submission"])
def test_a_submission_that_was_lost_half_written_is_not_graded_for_the_one_that_was_handed_in(tmp_path, left):
    out = tmp_path / "out"
    run(plan_of(out, 1), Stage(grade=failing(VerifierError("docker is off"))))
    (stored,) = out.glob("trials/*/artifacts/submission.tar")
    stored.write_bytes(left)
    stage = Stage()
    summary, _ = run(plan_of(out, 1), stage)
    assert (summary.done, summary.unscored) == (1, 0)
    assert (stage.count("solve"), stage.count("grade")) == (1, 1) and stored.read_bytes() != left


@pytest.mark.parametrize(("left", "says"), [
    (b"", r"sweep\.json cannot be read"), (b'{"config": ', r"sweep\.json cannot be read"),
    (b"[]", r"sweep\.json is damaged"),
    (b'{"config": {}, "given": {"solver": {"no_such_knob": 1}}, "placement": {}}',
     r"cannot read the sweep's config \(solver\.no_such_knob\)"),
    (b'{"config": {}, "placement": {}}', r"cannot read the sweep's config \(given\)"),
])  # fmt: skip
def test_a_sweep_whose_own_file_is_lost_or_of_another_version_is_refused_in_one_line(cut, left, says):
    (cut / "sweep.json").write_bytes(left)
    with pytest.raises(OutputError, match=says) as refused:
        stored_config(str(cut))
    assert "\n" not in str(refused.value)
    if says.startswith("sweep"):
        with pytest.raises(OutputError, match=says):
            reconcile(str(cut), SweepConfig(), "s", True, set())
