import subprocess
import sys

import pytest

from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore, parquet, parquet_of, read_parquet
from hc_ray_actors.driver import results
from tests.fakes import sweepdir


@pytest.mark.parametrize("batch", [1, 4_000])
def test_tables_hold_every_trials_rows_whatever_the_batches(batch, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "BATCH", batch)
    memory = sweepdir.demo_like()
    name = sweepdir.add_told_trial(memory)
    store = SweepStore(str(memory.save(tmp_path)))
    results.write_tables(store, report.rows_of(store))
    found = {table: read_parquet(store.read(f"tables/{table}.parquet")) for table in (*results.COLUMNS, "trials")}
    assert [(row["candidate"], row["test"], row["observed"]) for row in found["matrix"]] == [
        ("c0.0", "t1", "4"), ("c0.0", "t2", "1"), ("c0.1", "t1", "4"), ("c0.1", "t2", "0"),
    ]  # fmt: skip
    assert [(row["id"], row["temperature"], row["parent"]) for row in found["candidates"]] == [
        ("c0.0", 0.3, None), ("c0.1", 0.5, None),
    ]  # fmt: skip
    assert [(row["id"], row["admitted"]) for row in found["tests"]] == [("t1", True), ("t2", True), ("t3", False)]
    assert len(found["trials"]) == 25 and {row["trial"] for row in found["matrix"]} == {name}
    assert all(tuple(row) == results.COLUMNS[table] for table in results.COLUMNS for row in found[table])


def test_a_table_without_rows_keeps_its_columns(tmp_path):
    assert read_parquet(parquet_of([], {"a": "string", "b": "int64"})) == read_parquet(parquet([], ("a", "b"))) == []
    assert read_parquet(parquet([{"a": 1, "b": None}])) == [{"a": 1, "b": None}]
    store = SweepStore(str(sweepdir.sweep().save(tmp_path)))
    results.write_tables(store, [])
    assert store.exists("tables/matrix.parquet") and store.exists("tables/trials.parquet")


WITHOUT = """
import importlib.util, sys
from hc_ray.stores.sweep_directory import forgo_pandas, parquet, read_table
forgo_pandas()
table = read_table(parquet([{"a": 1, "b": None}]))
assert "pandas" not in sys.modules, "pyarrow imported pandas"
if importlib.util.find_spec("pandas"):
    assert list(table.to_pandas()["a"]) == [1]
"""


def test_a_process_that_forgoes_pandas_writes_tables_without_importing_it():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)
