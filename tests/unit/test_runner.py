import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.suite import Cell, Expectation, ExpectedValue, Property, Rejected, SelfTest, Subject, Unknown
from hc_ray.domain.task import Environment, Task
from hc_ray.sandboxes.inside.suites import checks
from hc_ray.sandboxes.inside.suites.child import Files
from hc_ray.search.repair import feedback
from hc_ray.selftests import runner
from hc_ray.selftests.runner import SuiteRuns
from tests.fakes.folder_place import FolderPlace, FolderSandbox
from tests.fakes.suites import call_test

TASK = Task(name="t", digest="0" * 64, instruction="x", environment=Environment())


@pytest.fixture
async def sandbox():
    place = FolderPlace()
    yield await place.create(TASK, "s")
    await place.close()


async def run(sandbox: FolderSandbox, tests: Sequence[SelfTest]) -> tuple[Cell, ...]:
    return tuple(runs[0] for runs in await repeated(sandbox, tests, 1))


async def repeated(sandbox: FolderSandbox, tests: Sequence[SelfTest], repeats: int) -> tuple[tuple[Cell, ...], ...]:
    suite, drive = runner.steps(tests, sandbox.workdir, repeats=repeats)
    await suite.on(sandbox)
    result = await drive.on(sandbox)
    assert result.exit_code == 0, result.stderr
    return runner.read_runs(result.stdout, tests)


def about(kind: str, path: str, expectation: Expectation, text: str = "", stdin: str = "") -> SelfTest:
    subject = Subject.model_validate({"kind": kind, "path": path})
    return SelfTest(id=f"{kind}-{path}-{expectation}-{text}-{stdin}", category="format", subject=subject, input=text,
                    stdin=stdin, expectation=expectation)  # fmt: skip


async def test_a_call_is_compared_by_value_and_its_answer_is_written_the_same_in_every_run(sandbox):
    await sandbox.put({"m.py": b"def f(x):\n    return {3, 1, x}\n"})
    tests = [call_test("a", "f(2)", "{1, 2, 3}"), call_test("b", "f(2)", "[1, 2, 3]"),
             call_test("c", "f([])", None)]  # fmt: skip
    right, wrong, crash = await run(sandbox, tests)
    assert (right.outcome, right.observed) == ("pass", "set{1, 2, 3}")
    assert wrong.outcome == "fail" and "was expected" in wrong.detail
    assert (crash.outcome, crash.observed) == ("error", "raises TypeError")
    await sandbox.put({"m.py": b"def f(x):\n    return 0.1 + 0.2 if x else object()\n"})
    sum_, thing = await run(sandbox, [call_test("a", "f(1)", "0.3"), call_test("b", "f(0)", None)])
    assert (sum_.outcome, sum_.observed) == ("pass", "0.3") and thing.observed == "<object object>"


async def test_a_module_that_does_not_load_shows_no_behaviour_and_what_one_prints_is_no_report(sandbox):
    await sandbox.put({"m.py": b"def f(x) return x\n", "n.py": b"y = 1\n", "o.py": b"import os; os._exit(0)\n"})
    tests = [call_test(path, "f(1)", None, path=path) for path in ("m.py", "n.py", "o.py", "absent.py")]
    cells = await run(sandbox, tests)
    assert [cell.outcome for cell in cells] == ["error"] * 4 and [cell.observed for cell in cells] == [None] * 4
    assert "SyntaxError" in cells[0].detail and "defines no f" in cells[1].detail and "there is no" in cells[3].detail
    forged = json.dumps({"id": "a", "run": 0, "outcome": "pass", "observed": "1", "detail": ""})
    await sandbox.put({"m.py": f"print({forged!r})\nimport os\nos.write(1, {forged!r}.encode())\n"
                               f"def f(x):\n    print({forged!r})\n    return 2\n".encode()})  # fmt: skip
    (cell,) = await run(sandbox, [call_test("a", "f(1)", "1")])
    assert cell.outcome == "fail"


async def test_a_call_that_raises_or_answers_none_is_a_refusal(sandbox):
    await sandbox.put({"m.py": b"def f(x):\n    return x or None\n"})
    cells = await run(sandbox, [call_test(f"t{x}", f"f({x})", expectation=Rejected()) for x in ("", "0", "1")])
    assert [cell.outcome for cell in cells] == ["pass", "pass", "fail"]


async def test_a_busy_and_an_idle_loop_time_out_and_patience_ends_after_two(sandbox, monkeypatch):
    monkeypatch.setattr(runner, "SECONDS_PER_TEST", 2.5)  # a busy one's processor time is over before
    await sandbox.put({"m.py": b"import time\ndef f(x):\n    while x:\n        time.sleep(x - 1)\n    return x\n"})
    tests = [call_test(str(x), f"f({x})", None) for x in (0, 1, 9, 3)]
    cells = await run(sandbox, tests)
    assert [cell.outcome for cell in cells[:3]] == ["pass", "timeout", "timeout"] and cells[3] == runner.STOPPED
    monkeypatch.setattr(runner, "SECONDS_PER_TEST", 1.0)
    runs = await repeated(sandbox, [*tests[1:], *tests[:1]], 3)
    told = [[cell.outcome for cell in cells] for cells in runs]
    assert told == [["timeout"]] * 3 + [["pass"] * 3], "a slow test is not repeated, and keeps no other from its runs"


async def test_every_test_sees_the_workdir_as_it_was_left_and_what_a_command_changes_is_observed(sandbox):
    script = f'echo "$1" >> {sandbox.workdir}/log.txt; wc -l < log.txt; mkdir -p d; rm -f keep\n'
    await sandbox.put({"s.sh": script.encode(), "log.txt": b"one\n", "keep": b""})
    tests = [about("command", "s.sh", ExpectedValue(value="2"), text) for text in ("a", "b")]
    cells = await run(sandbox, [*tests, about("file", "keep", Property(name="exists")),
                                about("command", "", ExpectedValue(value="1"), "wc -l < log.txt")])  # fmt: skip
    assert [cell.outcome for cell in cells] == ["pass"] * 4 and await sandbox.get("log.txt") == b"one\n"
    assert (cells[0].observed or "").startswith("exit 0; 2; changes d/, -keep, log.txt ")
    await sandbox.put({"move.sh": b"mv a.txt b.txt\n", "copy.sh": b"cp a.txt b.txt\n", "a.txt": b"1\n"})
    moved, copied = await run(sandbox, [about("command", name, Unknown()) for name in ("move.sh", "copy.sh")])
    assert moved.observed != copied.observed
    assert "-a.txt" in (moved.observed or "") and "-a.txt" not in (copied.observed or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_a_test_changed_is_put_back_with_its_owner_and_its_rights(tmp_path):
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    (work / "shared").mkdir(parents=True)
    scratch.mkdir()
    (work / "shared" / "run").write_text("x")
    (work / "link").symlink_to("shared")
    (work / "own").write_text("mine")
    for name, mode in {"shared": 0o2750, "shared/run": 0o4755, "link": None}.items():
        os.chown(work / name, 2001, 2002, follow_symlinks=False)
        if mode:
            (work / name).chmod(mode)
    files = Files(str(work), [], scratch)
    before = {path: (info.st_uid, info.st_gid, info.st_mode) for path in work.rglob("*") if (info := path.lstat())}
    for change in (lambda: os.chown(work / "shared", 0, 0), lambda: (work / "shared" / "run").write_text("y")):
        change()
        files.restore()
        now = {path: (info.st_uid, info.st_gid, info.st_mode) for path in work.rglob("*") if (info := path.lstat())}
        assert now == before and (work / "shared" / "run").read_text() == "x"


async def test_commands_read_standard_input_may_have_to_refuse_and_a_crash_says_what_happened(sandbox):
    await sandbox.put({"s.sh": b'read x; [ "$x" = ok ] || exit 3\necho "got $x  "\n'})
    tests = [about("command", "s.sh", ExpectedValue(value="got ok"), stdin="ok\n"),
             about("command", "s.sh", Rejected(), stdin="no\n"), about("command", "s.sh", Rejected(), stdin="ok\n"),
             about("command", "s.sh", Unknown(), stdin="no\n")]  # fmt: skip
    cells = await run(sandbox, tests)
    assert [cell.outcome for cell in cells] == ["pass", "pass", "fail", "error"]
    await sandbox.put({"s.sh": b"echo seven; echo broken >&2; exit 3\n", "t.sh": b"echo seven\n"})
    tests = [about("command", path, ExpectedValue(value="eight")) for path in ("s.sh", "t.sh")]
    crashed, wrong = await run(sandbox, tests)
    assert crashed.outcome == "error" and feedback([crashed], tests[:1], "crashes") == (
        "s.sh: exit code 3, observed 'seven': broken",
    )
    assert wrong.outcome == "fail" and "'eight' was expected" in wrong.detail
    assert feedback([wrong], tests[1:], "crashes") == ()


async def test_a_c_program_is_compiled_and_run(sandbox):
    source = b'#include <stdio.h>\nint main(int n, char **a) { printf("%s\\n", n > 1 ? a[1] : "none"); return 0; }\n'
    await sandbox.put({"p.c": source, "bad.c": b"int main( {"})
    tests = [about("program", "p.c", ExpectedValue(value="hi you"), "'hi you'"),
             about("program", "p.c", ExpectedValue(value="none")), about("program", "bad.c", Unknown()),
             about("file", "p.c", Property(name="compiles")), about("file", "bad.c", Property(name="compiles")),
             about("file", "p.c", Property(name="defines", argument="main"))]  # fmt: skip
    cells = await run(sandbox, tests)
    assert [cell.outcome for cell in cells] == ["pass", "pass", "error", "pass", "fail", "pass"]
    assert "does not compile" in cells[2].detail


@pytest.mark.parametrize(("name", "argument", "good", "bad"), [
    ("valid_json", "", b'{"a": 1}', b"{a: 1}"),
    ("valid_csv", "", b"a,b\n1,2\n", b"a,b\n1\n"),
    ("utf8", "", "é".encode(), b"\xff\xfe\x00"),
    ("nonempty", "", b"x", b" \n"),
    ("defines", "f", b"f = lambda x: x\n", b"def g(): pass\n"),
    ("compiles", "", b"x = 1\n", b"x = (\n"),
])  # fmt: skip
async def test_a_file_property_holds_for_a_good_file_and_fails_for_a_bad_one(sandbox, name, argument, good, bad):
    await sandbox.put({"good.py": good, "bad.py": bad})
    expectation = Property(name=name, argument=argument)
    cells = await run(sandbox, [about("file", path, expectation) for path in ("good.py", "bad.py", "none.py")])
    assert [cell.outcome for cell in cells] == ["pass", "fail", "error"]


def test_a_report_that_was_cut_short_marks_the_rest_as_errors_and_half_a_character_is_told_in_an_escape():
    line = json.dumps({"id": "t1", "outcome": "error", "observed": "\ud800", "detail": "\x1b[31m\udc80\x1b[m"}).encode()
    ((cell,),) = runner.read_runs(line, [call_test("t1", "f(1)", None)])
    assert (cell.observed, cell.detail) == ("\\ud800", "\\udc80"), "and without colours"
    tests = [call_test("a", "f(1)", None), call_test("b", "f(2)", None)]
    line = json.dumps({"id": "a", "run": 0, "outcome": "pass", "observed": "1 at 0x7f00aabbccdd", "detail": ""})
    (first,), (second,) = runner.read_runs(f"noise\n{line}\n[1]\n{{\n".encode(), tests)
    assert first == Cell(outcome="pass", observed="1 at 0x?")
    assert second.outcome == "error" and "stopped" in second.detail


@given(st.sampled_from(sorted(checks.CHECKS)), st.text(max_size=20), st.binary(max_size=60))
def test_no_argument_and_no_content_breaks_a_check_of_which_both_sides_know(name, argument, data):
    assert set(checks.CHECKS) == set(runner.FILE_PROPERTIES)
    for path in ("no.py", "no.txt"):
        assert checks.holds(name, argument, data, Path(path))[0] in ("pass", "fail")


async def test_one_server_forks_for_every_call_and_a_candidate_that_kills_it_gains_errors_alone(sandbox, tmp_path):
    source = b"import os, sys\nsys.seen = getattr(sys, 'seen', 0) + 1\ndef f(x):\n    return [sys.seen, os.getppid()]\n"
    await sandbox.put({"m.py": source})
    first, second = await run(sandbox, [call_test("a", "f(1)", None), call_test("b", "f(2)", None)])
    assert first.outcome == second.outcome == "pass"
    assert first.observed == second.observed and str(first.observed).startswith("[1, ")
    # The second time it does as it should.
    source = (
        f"import os, pathlib\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "def f(x):\n    if not mark.exists():\n        mark.touch()\n        os.kill(os.getppid(), 9)\n    return x\n"
    )
    await sandbox.put({"m.py": source.encode()})
    tests = [call_test("a", "f(1)", "1"), call_test("b", "f(2)", "2")]
    assert [cell.outcome for cell in await run(sandbox, tests)] == ["pass", "pass"] and (tmp_path / "mark").exists()
    source = b"import os\ndef f(x):\n    if x < 3:\n        os.kill(os.getppid(), 9)\n    return x\n"
    await sandbox.put({"m.py": source})
    cells = await run(sandbox, [*tests, call_test("c", "f(3)", "3")])
    assert [cell.outcome for cell in cells] == ["error", "error", "pass"]
    assert cells[0].detail.startswith("ChildProcessError: the interpreter that runs the calls ended, twice")


async def test_what_cannot_be_written_is_the_candidate_s_fault_in_every_test(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(self: FolderSandbox, files: Mapping[str, bytes], *, mode: int = 0) -> None:
        if b"bad" in files.values():
            raise ValueError("m.py is a folder")

    monkeypatch.setattr(FolderSandbox, "put", refuses)
    place = FolderPlace(quick=True)
    suite = SuiteRuns(SandboxForks(place, TASK, "trial"))
    cells = await suite.try_out("c", {"m.py": "bad"}, [call_test(name, "f(1)", None) for name in "ab"])
    assert [cell.outcome for cell in cells] == ["error"] * 2 and "m.py is a folder" in cells[0].detail
    assert [sandbox.closed for sandbox in place.made] == [False, True]
    await suite.forks.close()
