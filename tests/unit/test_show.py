import pytest

from hc_ray.domain.errors import OutputError
from hc_ray.reports import trial_text, trial_view
from hc_ray.reports.terminal import tell
from tests.fakes import sweepdir
from tests.fakes.screen import said


def described(*trial, of=sweepdir.add_told_trial, **more):
    store = sweepdir.sweep()
    return trial_view.describe(store, of(store, *trial, **more))


def told(about=None, verbose=False):
    return said(tell, *trial_text.trial_sections(about or described(), verbose=verbose))


def test_a_reader_finds_instruction_tests_with_gate_reasons_candidates_choice_and_verdict() -> None:
    text = told()
    for part in ("Write double(n) in double.py.", "2 admitted of 3 generated", "double(2) → 4",
                 "contradicted by a second reading", "observed 1, expected 0", "return n + n or 1",
                 "c0.1 by posterior: it passes 2 of 2 tests", "passed (isolated; second witness: agrees)",
                 "stopped: complete"):  # fmt: skip
        assert part in text
    assert "Failures outside" not in text


def test_the_submitted_candidate_is_marked_each_test_has_its_row_and_prompts_are_told_if_asked_for():
    lines = told().splitlines()
    (marked,) = [line for line in lines if line.startswith("*")]
    assert "c0.1" in marked and any(line.startswith("c0.1 (submitted): double.py") for line in lines)
    (row,) = [line.split() for line in lines if line.startswith("t2 ")]
    about = described()
    about["candidates"][1]["duplicate_of"] = "c0.0"
    text = told(about)
    assert "same as c0.0" in text and "return 2 * n" not in text, "a duplicate shows no files and no outcomes again"
    about["matrix"]["cells"][0][1]["detail"] = "assert 'a' == 'b'\n- b\n+ a\n  where 1 = f()"
    assert "assert 'a' == 'b'" in next(line for line in told(about).splitlines() if line.startswith("t2 "))
    assert row[:3] == ["t2", "fail", "pass"] and "PROMPT-TEXT" not in told() and "ANSWER-TEXT" in told(verbose=True)


def test_inputs_without_an_expected_value_are_marked_and_explained_and_a_plain_fail_is_said_once():
    about = described()
    about["suite"]["tests"][0]["expectation"] = {"kind": "unknown"}
    about |= {"passed": False, "cause": "failed", "turns": 1}
    text = told(about)
    assert " → ? " in text and trial_text.INPUTS.split(";")[0] in text
    assert "\nfailed (isolated" in text and "1 turn, " in text
    text = told(about | {"suite": None})
    assert "inputs run" in text and "self-tests down" not in text


@pytest.mark.parametrize("data", [b"", b"xx", b"PAR1 and no more PAR1"])
def test_a_damaged_table_is_told_in_one_line(data):
    store = sweepdir.sweep()
    name = sweepdir.add_told_trial(store)
    store.write(f"trials/{name}/agent/matrix.parquet", data)
    with pytest.raises(OutputError, match=r"agent/matrix\.parquet cannot be read: [^\n]+$"):
        trial_view.describe(store, name)


def test_a_repair_is_shown_as_the_change_to_its_parent() -> None:
    store = sweepdir.sweep()
    name = sweepdir.add_told_trial(store)
    for path in (f"trials/{name}/result.json", f"trials/{name}/agent/candidates.json"):
        text = store.read(path).decode().replace('"id":"c0.1","round":0,"slot":1,"parent":null', "@").replace(
            '"id": "c0.1", "round": 0', '"id": "c0.1", "parent": "c0.0", "round": 0'
        )  # fmt: skip
        store.write(path, text.replace("@", '"id":"c0.1","round":0,"slot":1,"parent":"c0.0"').encode())
    repair = trial_view.describe(store, name)["candidates"][1]
    assert repair["parent"] == "c0.0"
    assert "-    return n + n or 1" in repair["diff"] and "+    return 2 * n" in repair["diff"]


def test_an_agent_without_model_or_tests_is_shown_without_any_and_an_unscored_trial_says_why_and_what_never_began():
    about = described("a", "oracle", False, of=sweepdir.add_trial, metadata={"cause": "1 of 6 tests failed"})
    assert about["suite"] is None and about["matrix"] is None and about["candidates"] == []
    assert "failed: 1 of 6 tests failed" in told(about) and "this agent writes no tests" in told(about)
    text = told(described("a", "hc", None, of=sweepdir.add_trial))
    assert "unscored: EngineError: the server died" in text
    assert text.count("none: the trial ended before this") == 3 and "this agent" not in text
    assert "this agent uses no model" in told(described("a", "oracle", None, of=sweepdir.add_trial))


def test_no_answer_that_could_be_read_is_called_malformed():
    about = described()
    about["candidates"][0] |= {"malformed": "the lineage ended (submitted) and changed nothing", "files": {}}
    text = told(about)
    assert "the lineage ended (submitted)" in text and "malformed" not in text


def test_an_oracle_that_fails_says_how_its_solution_ended_and_where_the_tests_output_is():
    text = told(described("a", "oracle", False, of=sweepdir.add_trial, metadata={"solution": "exit status 3"}))
    assert "solution/solve.sh: exit status 3; the submission changes nothing" in text
    assert "the reference solution does not pass; to see what they printed: hc-ray unseal OUT/a__oracle" in text
    assert "unseal" not in told(described("a", "nop", False, of=sweepdir.add_trial))
    alive = {"solution": "exit status 3", "grading": "shared"}
    text = told(described("a", "oracle", False, of=sweepdir.add_trial, metadata=alive))
    assert "solution/solve.sh: exit status 3; its changes are not stored: it was graded where it ran" in text
    text = told(described("a", "oracle", False, of=sweepdir.add_trial, metadata={"split": "holdout"}))
    assert "not kept for a holdout task" in text and "unseal" not in text


def test_a_program_comes_before_the_data_that_it_made_and_that_before_caches_which_are_told_by_their_folders():
    about = described()
    caches = {f"/root/.cache/{n:02x}/{n}-d": "(no text: a file of 9 bytes)" for n in range(200)}
    texts = {"/etc/a": "x\n", "a.csv": "1,2\n" * 99, "main.go": "package main\n"}
    about["candidates"][0]["files"] = {**caches, "odd": "(no text: removed)", **texts}
    text = told(about)
    assert text.index("c0.0: main.go") < text.index("c0.0: a.csv") < text.index("c0.0: /etc/a")
    assert "no text\nodd (removed)\n/root/.cache/ (200 entries)\n" in text and "c7/199-d" not in text
    assert "/root/.cache/c7/199-d (a file of 9 bytes)" in told(about, verbose=True)


@pytest.mark.parametrize(("text", "last"), [
    ("".join(f"line {n}\n" for n in range(5000)), "line 4999"), ("x" * 99_000 + "end of it", "end of it"),
], ids=["many lines", "one long line"])  # fmt: skip
def test_of_a_long_text_a_piece_is_shown_and_all_of_it_when_asked_for(text, last):
    about = described()
    about["candidates"][0]["files"] = {"made.txt": text}
    about["candidates"][1] |= {"parent": "c0.0", "diff": text}
    about |= {"instruction": text}
    short = told(about)
    assert len(short) < 40_000 and last not in short and short.count(" more characters (-v shows all)") == 3
    assert told(about, verbose=True).count(last) == 3


def test_of_many_files_some_are_shown_and_all_when_asked_for():
    about = described()
    files = {f"made/{n:03}.txt": f"text {n}\n" for n in range(300)}
    about["candidates"][0]["files"] = files
    assert "… and 280 more files (-v shows all)" in told(about) and "made/299" not in told(about)
    whole = told(about, verbose=True)
    assert all(f"c0.0: {path}" in whole for path in files)
    oracle = described("a", "oracle", True, of=sweepdir.add_trial) | {"submission": list(files)}
    assert "and 280 more files" in told(oracle) and "made/299" not in told(oracle)
    assert "made/299" in told(oracle, verbose=True)


def test_a_trial_is_found_by_a_part_of_its_name_and_a_miss_names_the_nearest() -> None:
    store = sweepdir.demo_like()
    full = trial_view.find_trial(store, "t03__hc")
    assert full.startswith("t03__hc") and trial_view.find_trial(store, full) == full
    store.write(f"trials/{full}0/result.json", store.read(f"trials/{full}/result.json"))
    assert trial_view.find_trial(store, full) == full
    with pytest.raises(OutputError, match="4 trials match"):
        trial_view.find_trial(store, "t03")
    with pytest.raises(OutputError, match="did you mean t03__hcd0cc"):
        trial_view.find_trial(store, "t03_hcd0cc")


def test_attempts_that_failed_outside_the_sandboxes_are_told_and_their_traces_when_asked_for() -> None:
    attempt = {"stage": "grade", "number": 1, "error_type": "VerifierError", "error": "no sandbox\nat all", "trace": "",
               "at": "2026-11-22T10:00:00", "again_after_sec": 2.5}  # fmt: skip
    last = {**attempt, "number": 2, "error_type": "KeyError", "trace": "TRACE-TEXT", "again_after_sec": None}
    about = described("t", "raw", None, of=sweepdir.add_trial, metadata={"failed_attempts": [attempt, last]})
    for verbose in (False, True):
        text = told(about, verbose)
        assert "Failures outside the sandboxes: 2 attempts" in text
        assert "VerifierError" in text and "no sandbox" in text and "2.5 s" in text and "no retry" in text
        assert ("TRACE-TEXT" in text) is verbose
