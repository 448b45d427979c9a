import json
from collections.abc import Callable

import pytest

from hc_ray.cli import app as cli
from tests.fakes.tasks import make_task, make_tasks

Refused = Callable[..., None]


@pytest.fixture
def dataset(tmp_path):
    make_task(tmp_path / "tasks", "add")
    return tmp_path / "tasks"


def hc_ray(*words: object) -> int:
    return cli.run([str(word) for word in words])


@pytest.fixture
def refused(capsys) -> Refused:
    """Whether a command line is refused with words that tell why."""

    def look(*line: object, why: tuple[str, ...]) -> None:
        capsys.readouterr()
        assert hc_ray(*line) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said and len(said.strip().splitlines()) <= 3
        assert [word for word in why if word not in said] == []

    return look


@pytest.mark.parametrize(("words", "why"), [
    pytest.param("-a raw --model smollm2-135m-instrct", ("smollm2-135m-instruct",), id="an unknown model"),
    pytest.param("-a raw --split all", ("split: all",), id="a model on all tasks of a split dataset"),
    pytest.param("-a nop --split holdout", ("tasks split",), id="a holdout without a fixed split"),
    pytest.param("-a hc -a hc", ("twice",), id="an agent named twice"),
    pytest.param("-a hc --budget-tokens 1000", ("budget.tokens", "1500"), id="a budget that self-tests would eat"),
    pytest.param("-a oracle --sandbox bwrap --grading shared", ("shared", "--sandbox docker"), id="bwrap, shared"),
])  # fmt: skip
def test_what_a_sweep_cannot_be_is_refused_with_what_it_can(dataset, refused, words, why):
    refused("sweep", "-p", dataset, *words.split(), why=why)


def test_an_output_folder_that_holds_something_else_is_left_alone_and_a_false_gguf_makes_none(
    refused, dataset, tmp_path
):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    refused("sweep", "-p", dataset, "-a", "nop", "--sandbox", "bwrap", "-o", out, why=("mine", "-o"))
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    fake = tmp_path / "model.gguf"
    fake.write_bytes(b"not a model at all")
    out = tmp_path / "out"
    refused("sweep", "-p", dataset, "-a", "raw", "--model", fake, "-o", out, why=("model.gguf", "GGUF"))
    assert not out.exists()


def test_a_folder_without_tasks_a_missing_dataset_and_a_resume_of_nothing_are_refused(refused, tmp_path, dataset):
    (tmp_path / "empty").mkdir()
    refused("sweep", "-p", tmp_path / "empty", "-a", "nop", why=("empty",))
    refused("sweep", "-p", tmp_path / "nothing", "-a", "nop", why=("nothing", "starter"))
    refused("sweep", "-p", "", "-a", "nop", why=("-p is empty",))
    (tmp_path / "file").write_text("a task")
    refused("sweep", "-p", tmp_path / "file", "-a", "nop", why=("not a folder", "a folder of tasks"))
    refused("sweep", "-p", dataset, "-a", "nop", "-o", tmp_path / "typo", "--resume", why=("no sweep",))
    assert not (tmp_path / "typo").exists()


def test_a_single_held_out_task_is_no_way_around_the_holdout_which_is_never_refined_on(refused, dataset):
    make_tasks(dataset, 4)
    assert hc_ray("tasks", "split", dataset, "--fraction", 0.2) == 0
    held_out = next(iter(json.loads((dataset / "split.json").read_text())["holdout"]))
    for verb in (("run", "-a", "raw"), ("testgen",), ("sweep", "-a", "hc")):
        refused(*verb, "-p", dataset / held_out, "--sandbox", "bwrap", why=("is a holdout task", "--split holdout"))
    whole = ("sweep", "-p", dataset, "-a", "hc", "--split", "holdout")
    refused(*whole, "--set", "solver.refinement=1", why=("refinement",))
    assert not (dataset / "split.ledger.jsonl").exists()


def test_a_task_that_asks_for_shared_grading_is_refused_in_bubblewrap_and_its_neighbour_is_not(dataset, capsys):
    make_task(dataset, "living", toml='[verifier]\nenvironment_mode = "shared"\n')
    assert hc_ray("sweep", "-p", dataset, "-a", "nop", "--sandbox", "bwrap", "--dry-run", "--json") == 0
    told = capsys.readouterr().out
    assert "living sandbox, which bubblewrap cannot give away" in told and '"add"' in told
