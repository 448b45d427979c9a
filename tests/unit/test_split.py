import json
from pathlib import Path

import pytest

from hc_ray.blind.sealing.split import count_looks, load_split, make_split, record_look
from hc_ray.domain.errors import DatasetError
from hc_ray.tasks.vocabulary import benchmark
from tests.fakes.tasks import TOML, make_task


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for number in range(20):
        make_task(tmp_path / "set", f"t{number:02}", instruction=f"Task {number}.\n")
    return tmp_path / "set"


def test_a_fifth_is_held_out_equal_tasks_fall_on_one_side_and_the_file_says_which(dataset):
    split = make_split(dataset, seed=7)
    assert (len(split.dev), len(split.holdout)) == (16, 4) and load_split(dataset) == split
    written = json.loads((dataset / "split.json").read_text())
    assert written["schema_version"] == 1
    assert set(written["dev"]) | set(written["holdout"]) == {f"t{number:02}" for number in range(20)}
    assert split.side(next(iter(split.holdout.values()))) == "holdout"
    assert split.side(next(iter(split.dev.values()))) == "dev" and split.side("0" * 64) is None
    for number in range(20):
        make_task(dataset, f"twin{number:02}", instruction=f"Task {number}.\n")
    (dataset / "split.json").unlink()
    split = make_split(dataset, seed=1)
    assert not set(split.dev.values()) & set(split.holdout.values()) and len(split.holdout) == 8


def test_a_split_depends_on_content_and_seed_and_not_on_names(dataset: Path, tmp_path: Path) -> None:
    for number in range(20):
        make_task(tmp_path / "renamed", f"r{19 - number:02}", instruction=f"Task {number}.\n")
    one, same = make_split(dataset, seed=7), make_split(tmp_path / "renamed", seed=7)
    assert set(one.holdout.values()) == set(same.holdout.values())
    (tmp_path / "renamed" / "split.json").unlink()
    other = make_split(tmp_path / "renamed", seed=8)
    assert set(one.holdout.values()) != set(other.holdout.values())


def test_a_split_is_never_overwritten(dataset: Path) -> None:
    first = make_split(dataset, seed=7)
    assert make_split(dataset, seed=7) == first
    for other in ({"seed": 8}, {"seed": 7, "fraction": 0.5}):
        with pytest.raises(DatasetError, match="another split"):
            make_split(dataset, **other)  # type: ignore[arg-type]
    make_task(dataset, "t99", instruction="New.\n")
    with pytest.raises(DatasetError, match="another split"):
        make_split(dataset, seed=7)
    assert load_split(dataset) == first and not [path for path in dataset.iterdir() if path.name.startswith(".")]


def test_broken_tasks_are_on_no_side_and_too_few_are_refused(tmp_path: Path) -> None:
    make_task(tmp_path, "broken", toml="[")
    make_task(tmp_path, "sound")
    with pytest.raises(DatasetError, match="too few"):
        make_split(tmp_path, seed=1)
    make_task(tmp_path, "more", instruction="More.\n")
    split = make_split(tmp_path, seed=1, fraction=0.5)
    assert set(split.dev) | set(split.holdout) == {"sound", "more"}
    with pytest.raises(DatasetError, match="between 0 and 1"):
        make_split(tmp_path, seed=1, fraction=1.5)


def test_a_holdout_may_be_named_by_the_last_part_faults_or_not_and_is_fixed_as_any_other(dataset: Path) -> None:
    make_task(dataset, "twin", instruction="Task 3.\n")
    make_task(dataset, "whole", toml=TOML + '[task]\nname = "some/whole"\n', instruction="Whole.\n")
    with pytest.raises(DatasetError, match=r"no task, or several, of the name t98, t99$"):
        make_split(dataset, holdout=["t99", "t03", "t98"])
    split = make_split(dataset, holdout=["t03", "whole"])
    assert (split.seed, sorted(split.holdout), len(split.dev)) == (None, ["some/whole", "t03", "twin"], 19)
    assert make_split(dataset, holdout=["some/whole", "t03"]) == split == load_split(dataset)
    for other in ({"holdout": ["t03"]}, {"seed": 0}):
        with pytest.raises(DatasetError, match=r"another split \(named"):
            make_split(dataset, **other)  # type: ignore[arg-type]
    (dataset / "split.json").unlink()
    make_task(dataset, "broken", toml="[")
    split = make_split(dataset, holdout=["broken", "t00"])
    assert split.holdout["broken"] == "" and set(split.holdout) == {"broken", "t00"}


def test_the_registered_holdout_of_terminal_bench_is_named_by_a_shipped_file(tmp_path, hc_ray):
    for name in benchmark():
        make_task(tmp_path / "tb2", name, instruction=f"{name}\n")
    split = ["tasks", "split", tmp_path / "tb2", "--holdout"]
    fixed = hc_ray(*split, "tb2", "--json")
    assert (len(fixed["dev"]), len(fixed["holdout"]), fixed["seed"]) == (70, 19, None)
    (tmp_path / "own").write_text("\n".join([*fixed["holdout"], " # of ours", ""]))
    for given in (tmp_path / "own", ",".join(fixed["holdout"])):
        assert "70 dev, 19 holdout, as named" in hc_ray(*split, given)
    wrongs = {",": "name the tasks", "a --seed 1": "neither --seed", "nowhere.txt": "no task, or several"}
    for wrong, says in wrongs.items():
        assert says in hc_ray(*split, *wrong.split(), code=2)


def test_no_split_is_none_and_a_damaged_one_or_a_task_on_both_sides_an_error(tmp_path, dataset):
    assert load_split(tmp_path) is None
    (tmp_path / "split.json").write_text('{"seed": 1')
    with pytest.raises(DatasetError, match=r"split\.json"):
        load_split(tmp_path)
    told = json.loads(make_split(dataset, seed=7).model_dump_json())
    name, digest = next(iter(told["holdout"].items()))
    for twin in (name, "copy"):
        (dataset / "split.json").write_text(json.dumps({**told, "dev": {**told["dev"], twin: digest}}))
        with pytest.raises(DatasetError, match=f"overlap: {twin}"):
            load_split(dataset)


def test_looks_are_counted_one_by_one_and_one_that_cannot_be_counted_is_refused(dataset, tmp_path):
    assert count_looks(dataset) == 0
    record_look(dataset, sweep="runs/a", trials=4)
    record_look(dataset, sweep="runs/b", trials=2)
    assert count_looks(dataset) == 2
    last = json.loads((dataset / "split.ledger.jsonl").read_text().splitlines()[-1])
    assert (last["sweep"], last["trials"]) == ("runs/b", 2) and last["when"]
    (tmp_path / "split.ledger.jsonl").mkdir()
    with pytest.raises(DatasetError, match="counted"):
        record_look(tmp_path, sweep="x", trials=1)
