"""How long MLflow takes to be told of a large sweep: scripts/bench tracking [TRIALS]. The trials are made, one in four
with its candidates; none has a trajectory, since at most 200 a child run become traces."""

import sys
import tempfile
import time
from pathlib import Path

from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore, parquet
from hc_ray_actors.driver import tables
from hc_ray_actors.tracker import export
from tests.fakes import sweepdir


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as place:
        made = sweepdir.sweep()
        for number in range(trials // 4):
            for agent in ("raw", "best_of_n", "hc", "oracle"):
                sweepdir.add_trial(made, f"t{number % 250:03}", agent, number % 3 == 0, seed=number // 250)
        candidates = [dict.fromkeys(tables.COLUMNS["candidates"]) | {"trial": name.split("/")[1], "id": f"c1.{slot}"}
                      for name in made.files if "__hc" in name for slot in range(8)]  # fmt: skip
        made.write("tables/candidates.parquet", parquet(candidates))
        out = str(made.save(Path(place) / "out"))
        summary = report.summarise(SweepStore(out))
        for what in ("first", "again"):
            began = time.monotonic()
            export(f"sqlite:///{place}/mlflow.db", out, summary)
            print(f"{what}: {trials} trials, {len(candidates)} candidates told in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
