import json

import pytest

from hc_ray.adapters.sweep_store import SweepStore, parquet, read_parquet
from hc_ray.errors import OutputError, StoreError
from hc_ray.events import TrialStart
from hc_ray_actors.journal import LEASE, Journal, Lease


def _store(tmp_path):
    return SweepStore(str(tmp_path / "out"))


def test_a_second_owner_is_refused_while_the_first_lives(tmp_path):
    Lease(_store(tmp_path))
    with pytest.raises(OutputError, match="is running this sweep"):
        Lease(_store(tmp_path))


def test_a_released_directory_is_taken_with_a_higher_epoch(tmp_path):
    first = Lease(_store(tmp_path))
    first.release()
    assert Lease(_store(tmp_path)).epoch == first.epoch + 1


def test_the_lease_of_a_dead_process_is_taken_over(tmp_path):
    store = _store(tmp_path)
    lease = Lease(store)
    held = json.loads(store.read(LEASE))
    held["owner"] = "999999-1"
    store.write(LEASE, json.dumps(held).encode())
    assert Lease(store).epoch == lease.epoch + 1


def test_a_writer_of_an_older_epoch_drops_what_it_would_write(tmp_path):
    store = _store(tmp_path)
    old = Lease(store)
    old.release()
    Lease(store)
    with pytest.raises(StoreError, match="took this sweep over"):
        old.check()


def test_an_older_owner_does_not_release_a_newer_lease(tmp_path):
    store = _store(tmp_path)
    old = Lease(store)
    old.release()
    Lease(store)
    old.release()
    assert json.loads(store.read(LEASE))["released"] is False


def test_events_are_read_back_in_the_order_in_which_they_were_emitted(tmp_path):
    store = _store(tmp_path)
    journal = Journal(store, Lease(store))
    for seed in range(1203):
        journal.emit(TrialStart(trial="t", task="a", agent="raw", seed=seed))
    journal.flush()
    lines = [line for path in store.list("events") for line in store.read(path).decode().splitlines()]
    assert [json.loads(line)["seed"] for line in lines] == list(range(1203))


def test_a_later_start_writes_segments_of_its_own(tmp_path):
    store = _store(tmp_path)
    for seed in range(2):
        lease = Lease(store)
        journal = Journal(store, lease)
        journal.emit(TrialStart(trial="t", task="a", agent="raw", seed=seed))
        journal.flush()
        lease.release()
    assert len(store.list("events")) == 2


def test_the_store_lists_only_trials_that_were_committed(tmp_path):
    store = _store(tmp_path)
    store.write("trials/a__1/config.json", b"{}")
    store.write("trials/b__2/result.json", b"{}")
    assert store.finished() == {"b__2"}


def test_the_store_refuses_paths_that_leave_it(tmp_path):
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(StoreError, match="not a path inside"):
            _store(tmp_path).write(path, b"")


def test_a_file_that_was_never_written_is_a_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        _store(tmp_path).read("nothing.json")


def test_a_table_without_rows_keeps_its_columns(tmp_path):
    assert read_parquet(parquet([], ("a", "b"))) == []
    assert read_parquet(parquet([{"a": 1, "b": None}])) == [{"a": 1, "b": None}]
