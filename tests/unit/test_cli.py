import errno
import fcntl
import json
import os
import shutil
import sys
import time

import pytest
from pydantic_core import SchemaError

from hc_ray.cli import app as cli
from hc_ray.cli import trials
from hc_ray.cli.options import config_from
from hc_ray.domain.errors import ConfigError, EngineError, LeakError, ModelError
from hc_ray.domain.suite import Suite
from hc_ray.machine import lease
from hc_ray.machine.paths import refusal
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.integrations.mcp_folders import Folders
from hc_ray_actors.integrations.mcp_workspace import kept
from hc_ray_actors.jobs import doctor, single
from tests.fakes import sweepdir
from tests.fakes.engine_server import EngineServer
from tests.fakes.processes import ran
from tests.fakes.scripts import echo_request
from tests.fakes.suites import call_test
from tests.fakes.tasks import make_task

ELSEWHERE = lease.Held(epoch=1, owner="1-1", pid=1, host="x", machine="another", renewed_at=0)
REMEDY = "set HC_RAY_HOME to a folder that you can write to, on a file system with room and file locks"


@pytest.fixture
def sweep(tmp_path):
    store = sweepdir.demo_like()
    sweepdir.add_told_trial(store)
    return store.save(tmp_path / "sweep")


def test_help_loads_nothing_heavy():
    heavy = ("ray", "mlflow", "pydantic", "rich", "yaml", "docker", "pyarrow", "numpy", "scipy", "httpx", "xllamacpp")
    code = ("import sys\nfrom hc_ray.cli.app import run\nassert run(['--help']) == 0\n"
            f"print('LOADED', [m for m in {heavy!r} if m in sys.modules])")  # fmt: skip
    help_ = ran(sys.executable, "-c", code, check=True).stdout
    verbs = ("sweep", "climb", "run", "show", "testgen", "report", "regrade", "status", "models", "engine", "tasks",
             "doctor", "clean", "ui")  # fmt: skip
    assert help_.splitlines()[-1] == "LOADED []" and all(f"\n  {verb} " in help_ for verb in verbs)
    assert ran(sys.executable, "-m", "hc_ray", "--help", check=True).stdout == help_.removesuffix("LOADED []\n")


@pytest.mark.parametrize(("more", "shown"), [([], "blind pass"), (["--json"], '"configs"')])
def test_a_report_that_cannot_be_written_is_printed_all_the_same(more, shown, sweep, capsys):
    (sweep / "report.json").unlink(missing_ok=True)
    (sweep / "report.json").mkdir()
    assert cli.run(["report", str(sweep), *more]) == 2
    told = capsys.readouterr()
    assert shown in told.out and "Also written" not in told.out
    assert told.err == f"hc-ray: {sweep}: could not write report.json: Is a directory\n"


@pytest.mark.parametrize(("arguments", "says"), [
    (["swep"], "sweep"),
    (["sweep", "--frobnicate"], "--frobnicate"),
    (["sweep", "nowhere.yaml"], "nowhere.yaml: no such config file"),
    (["sweep", "-a", "hcc"], "--agent: agents.0: 'hcc' is not allowed (did you mean hc?)"),
    (["sweep", "-a", "mine"], "allowed: raw, best_of_n, hc, oracle, nop, your own MODULE:NAME"),
    (["sweep", "--sandbox", "doker"], "did you mean docker?"),
    (["sweep", "-k", "0"], "--seeds: 0 is not allowed: it should be greater than or equal to 1"),
    (["sweep", "-k", "many"], "'--seeds'"),
    (["sweep", "--resume"], "--resume needs -o OUT"),
    (["climb", "--resume"], "--resume needs -o OUT"),
    (["sweep", "--set", "climb.tokens=9"], "also need `search: climb` (or run hc-ray climb)"),
    (["sweep", "climb", "--max-trials", "3"], "--max-trials and --sleep do not apply to a climb"),
    (["climb", "--split", "holdout"], "No such option: --split"),
    (["sweep", "climb", "-a", "raw"], "a climb tunes only hc, not raw"),
    (["climb", "--resume", "-o", "nowhere"], "nowhere: no climb to resume"),
    (["run"], "--path"),
    (["run", "-p", "x", "-a", "hcc"], "did you mean hc?"),
    (["show", "nowhere/trial"], "neither this nor nowhere is a sweep directory"),
    (["sweep", "-a", "hc", "-a", "hc"], "demo.yaml with these flags: agents lists the same agent twice"),
    (["sweep", "--from", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory\n"),
    (["sweep", "--model", "qwen"], "for a server's model, also pass --base-url URL"),
    (["sweep", "-i", "nothing"], "on the dev side of its split is left by -i, -x and --tag (include, exclude, tags)"),
    (["sweep", "-p", "~nobody-here/tasks"], "~nobody-here/tasks: no such folder"),
    (["sweep", "--model", "~nobody-here/a.gguf"], "a.gguf: No such file or directory"),
    (["show", "~nobody-here/out"], "a sweep directory; expected OUT or OUT/TRIAL"),
    (["report", "nowhere"], "nowhere: not a sweep directory"),
    (["status", "nowhere"], "nowhere: not a sweep directory"),
    (["sweep", "--base-url", "http://127.0.0.1:9/v1"], "--base-url"),
    (["sweep", "--base-url", ""], "--base-url is empty, as when a shell variable is not set: give a value"),
    (["sweep", "--model="], "--model is empty"),
    (["sweep", "-p", " "], "-p is empty"),
    (["report", ""], "an argument is empty"),
    (["sweep", "--set", "engine.base_url="], "--set engine.base_url: there is no value; write null for none"),
    (["sweep", "--set", "engine.base_url=''"], "--set engine.base_url: '' is not allowed: it must not be empty"),
])  # fmt: skip
def test_what_a_user_gets_wrong_is_two_lines_at_most_and_exit_code_2(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and 1 <= len(err.strip().splitlines()) <= 2 and not list(tmp_path.iterdir())


def test_status_and_show_of_a_climb_say_where_its_sweeps_are(tmp_path, hc_ray):
    (tmp_path / "settings.json").write_text("{}")
    for verb in ("status", "show"):
        assert f"a climb, not a sweep; {tmp_path}/sweeps holds its sweeps" in hc_ray(verb, tmp_path, code=2)


def test_a_sweep_of_a_config_that_is_a_climb_is_that_climb_and_its_plan_names_models_and_tasks(
    tmp_path, monkeypatch, hc_ray
):
    monkeypatch.chdir(tmp_path)
    given = ["climb", "-o", "out", "--sandbox", "bwrap", "--dry-run"]
    assert hc_ray("sweep", *given, "--json")["terms"]["tokens"] == 3_000_000
    out = [" ".join(line.split()) for line in hc_ray("climb", *given).splitlines()]
    assert {"model smollm2-135m-instruct (embedded engine)",
            "meta-reasoner smollm2-135m-instruct (embedded engine)"} <= set(out)  # fmt: skip
    assert out[-1].startswith("tasks: hc-ray/") and out[-1].endswith("hc-ray/word-lengths")


def test_a_bug_is_one_line_and_exit_code_1_and_debug_which_may_stand_anywhere_shows_the_traceback(capsys):
    assert cli._fault(ValueError("odd\nsecond line")) == 1
    assert capsys.readouterr().err == "hc-ray: bug: ValueError: odd (rerun with --debug for the traceback)\n"
    assert cli._fault(EngineError("the server died")) == 1 and "bug:" not in capsys.readouterr().err
    assert cli._fault(LeakError("a canary in a prompt")) == 1 and cli._fault(ConfigError("x.yaml:3: wrong")) == 2
    assert capsys.readouterr().err.endswith("hc-ray: x.yaml:3: wrong\n")
    for arguments in (["sweep", "nowhere.yaml", "--debug"], ["--debug", "sweep", "nowhere.yaml"]):
        with pytest.raises(ConfigError):
            cli.run(arguments)


def test_report_writes_both_files_and_shows_people_the_table_the_comparisons_and_what_is_unscored(
    sweep, capsys, hc_ray
):
    assert cli.run(["report", str(sweep), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and json.loads(out) == report.summarise(SweepStore(str(sweep)))
    assert json.loads((sweep / "report.json").read_text()) == json.loads(out)
    assert (sweep / "report.html").read_text().startswith("<!doctype html>")
    out = hc_ray("report", sweep)
    assert "hc vs. raw (dev): no difference detected" in out and "EngineError: the server died" in out
    assert "if unscored trials count as fails" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("raw ")]
    assert " ".join(row).startswith("raw 0.25 [0.07, 0.59] not measured 8 8 0 ")


def test_a_reader_that_goes_away_is_no_fault(sweep):
    program = f"'{sys.executable}' -c 'from hc_ray.cli.app import main; main()'"
    words = {f"report {sweep} | head -n 2": "0", f"report {sweep} --json | true": "0", "--help | true": "0",
             "| true": "2", "report nowhere 2>&1 | true": "2"}  # fmt: skip
    for word, code in words.items():
        done = ran("bash", "-c", f"{program} {word}; echo ${{PIPESTATUS[0]}}", check=True)
        assert (done.stdout.splitlines()[-1], done.stderr) == (code, ""), word


def test_a_terminal_that_lacks_a_letter_gets_its_number(sweep):
    told = ["-c", "from hc_ray.cli.app import main; main()", "report", str(sweep)]
    done = ran(sys.executable, *told, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert "\\u2265 0.80" in done.stdout and "Also written to" in done.stdout


def test_show_reads_a_trial_from_a_sweep_directory(sweep, capsys, monkeypatch, hc_ray):
    for arguments, code, told in (
        ([f"{sweep}/double__hc"], 0, ["contradicted by a second reading", "observed 1, expected 0"]),
        ([f"{sweep}/trials/double__hc", "--json"], 0, ['"chosen": "c0.1"']),
        ([str(sweep)], 0, ["25 finished trials", "double__hc"]), ([f"{sweep}/t03"], 2, ["(best_of_n)"]),
    ):  # fmt: skip
        assert cli.run(["show", *arguments]) == code
        said = "".join(capsys.readouterr())
        assert all(part in said for part in told)
    monkeypatch.setattr(trials, "TRIALS", 20)
    for words, whole in (((), False), (("-v",), True)):
        said = hc_ray("show", sweep, *words)
        assert ("and 5 more (-v lists them)" in said) is not whole and ("t07__raw" in said) is whole


def test_what_testgen_prints_as_json_is_a_suite_that_the_mcp_server_runs(home, tmp_path, monkeypatch, hc_ray):
    suite = Suite(tests=(call_test("t1", "double(2)", "4"),), prompt_tokens=9)
    monkeypatch.setattr(single, "make_suite", lambda settings, path: suite)
    (tmp_path / "suite.json").write_text(json.dumps(out := hc_ray("testgen", "-p", "x", "--json")))
    assert out["schema_version"] == 1
    assert kept(tmp_path, "suite.json", Folders([str(tmp_path)]))[1] == suite.tests
    assert "1 admitted of 1 generated" in hc_ray("testgen", "-p", "x")


def test_status_counts_what_is_there(sweep, hc_ray):
    events = [{"type": "trial_start", "trial": "x__1", "at": 1.0, "task": "x", "agent": "hc", "seed": 0},
              {"type": "error", "trial": "x__1", "at": 2.0, "text": "it broke", "cause": ""}]  # fmt: skip
    (sweep / "events").mkdir()
    (sweep / "events" / "000000.jsonl").write_text("\n".join(map(json.dumps, events)))
    (sweep / "lease.json").write_text(ELSEWHERE.model_copy(update={"released": True}).model_dump_json())
    found = hc_ray("status", sweep, "--json")
    assert (found["done"], found["owner"], found["running"]) == (25, "ended", [])
    assert found["errors"] == [{"trial": "x__1", "text": "it broke"}]
    (done,) = (folder.name for folder in (sweep / "trials").glob("double__*"))
    start = {**events[0], "trial": done}
    (sweep / "events" / "000001.jsonl").write_text(json.dumps(start))
    for renewed, owner, running in ((time.time(), "running", ["x__1"]), (0, "gone", [])):
        (sweep / "lease.json").write_text(ELSEWHERE.model_copy(update={"renewed_at": renewed}).model_dump_json())
        found = hc_ray("status", sweep, "--json")
        assert (found["owner"], [one["trial"] for one in found["running"]]) == (owner, running)
    assert f"its process died; to continue: hc-ray sweep --resume -o {sweep}\n" in hc_ray("status", sweep)


def test_a_sweep_of_a_machine_whose_clock_is_minutes_off_runs_as_long_as_its_lease_is_renewed(
    sweep, monkeypatch, hc_ray
):
    def hold(offset):
        held = ELSEWHERE.model_copy(update={"renewed_at": time.time() + offset})
        (sweep / "lease.json").write_text(held.model_dump_json())
        start = {
            "type": "trial_start",
            "trial": "x__1",
            "at": held.renewed_at - 5,
            "task": "x",
            "agent": "hc",
            "seed": 0,
        }
        (sweep / "events").mkdir(exist_ok=True)
        (sweep / "events/000000.jsonl").write_text(json.dumps(start))

    def owner(offset, sleep):
        hold(offset)
        monkeypatch.setattr(time, "sleep", sleep)
        found = hc_ray("status", sweep, "--json")
        assert [one["seconds"] for one in found["running"]] == [5.0] * (found["owner"] == "running")
        return found["owner"]

    for offset in (-400, 400):
        assert owner(offset, lambda seconds, offset=offset: hold(offset)) == "running"
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.1)
    assert owner(-400, lambda seconds: None) == "gone", "nobody renews it"
    assert owner(-7 * 86_400, lambda seconds: pytest.fail("it listens to a lease of last week")) == "gone"


def test_one_flag_is_enough_for_a_server_that_holds_one_model():
    with EngineServer(echo_request, models=("their-model",)) as server:
        config = config_from(None, {"--base-url": server.base_url}).engine
        assert (config.kind, config.base_url, config.model) == ("openai", server.base_url, "their-model")
    with EngineServer(echo_request, models=("one", "two")) as server:
        with pytest.raises(ConfigError, match="serves 2 models; name one: one, two"):
            config_from(None, {"--base-url": server.base_url})
        assert config_from(None, {"--base-url": server.base_url, "--model": "two"}).engine.model == "two"


def test_flags_that_were_not_given_leave_the_file_alone_and_run_refuses_to_set_what_it_decides_itself(tmp_path, hc_ray):
    file = tmp_path / "mine.yaml"
    file.write_text("seeds: 3\ninclude: [a*]\n")
    config = config_from(str(file), {"--seeds": None, "--include": [], "--limit": 5})
    assert (config.seeds, config.include, config.limit) == (3, ("a*",), 5)
    assert config_from(None, {"--script": "mine:answer"}).engine.kind == "scripted"
    for wrong, says in (("seeds=3", "--set seeds: `run` runs one trial, with the task, agent and seed"),
                        ("solver.samplse=3", "did you mean solver.samples?")):  # fmt: skip
        assert says in hc_ray("run", "-p", "x", "--set", wrong, code=2)


def test_tasks_check_tells_every_fault_with_its_remedy_and_refuses_a_folder_without_tasks(tmp_path, capsys, hc_ray):
    (tmp_path / "set" / "one").mkdir(parents=True)
    (tmp_path / "set" / "one" / "task.toml").write_text("x =\n")
    assert cli.run(["tasks", "check", str(tmp_path / "set")]) == 2
    said = capsys.readouterr().out
    assert "is not valid TOML" in said and "instruction.md" in said and "fault" in said.splitlines()[0]
    report = hc_ray("tasks", "check", tmp_path / "set", "--json", code=2)
    assert report["tasks"] == 1 and {*report["faults"][0]} == {"task", "field", "says", "remedy"}
    (tmp_path / "empty").mkdir()
    said = hc_ray("tasks", "check", tmp_path / "empty", code=2)
    assert "contains no task" in said and "migrate" not in said
    (tmp_path / "empty" / "task.yaml").touch()
    assert "migrate" in hc_ray("tasks", "check", tmp_path / "empty", code=2)


def test_bare_sweep_is_the_demo_whatever_lies_where_it_is_started(home, tmp_path, monkeypatch, hc_ray):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    told = hc_ray("sweep", "--dry-run", "--json", "--engine", "scripted", "--script", "tests.fakes.scripts:echo")
    assert told["config"]["tags"] == ["demo"]


def raising(fault):
    def work(*_, **__):
        raise fault

    return work


@pytest.mark.parametrize(("where", "fault"), [
    (doctor, KeyboardInterrupt()), (doctor, SchemaError('Error building "model" validator:\n  KeyboardInterrupt: ')),
    (cli._Commands, KeyboardInterrupt()),
], ids=["at work", "while it builds a validator", "while options are read"])  # fmt: skip
def test_an_interrupted_command_says_so(where, fault, monkeypatch, hc_ray):
    monkeypatch.setattr(where, "examine" if where is doctor else "parse_args", raising(fault))
    assert hc_ray("doctor", code=130) == "hc-ray: interrupted\n"


def test_one_that_is_interrupted_while_it_loads_says_so_too(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    done = ran(sys.executable, "-m", "hc_ray", "doctor", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (130, "hc-ray: interrupted\n")


def test_what_a_library_breaks_at_the_end_of_the_process_changes_no_exit_code_of_who_was_interrupted(tmp_path):
    code = """import ctypes, sys
from hc_ray.cli import app
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
app.run = lambda words: print("told", end="") or 130
app.main()"""
    done = ran(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (130, "told")


def found(*fails):
    names = ("platform", "home", "runner", "docker", "bwrap", "sandbox auto", "model small", "model large", "ray")
    remedies = {"model small": "hc-ray models pull small"}
    return [doctor.Finding(name=one, ok=one not in fails, says="", remedy=remedies.get(one, "")) for one in names]


@pytest.mark.parametrize(("fails", "lacks"), [
    (("docker", "sandbox auto", "model large"), []), (("bwrap", "model small", "model large"), []),
    (("home",), ["home"]), (("docker", "bwrap", "model small", "model large"), ["a sandbox (docker or bwrap)"]),
], ids=["bwrap and one model", "Docker and a server's model", "no home", "nothing"])  # fmt: skip
def test_doctor_s_exit_code_says_whether_a_sweep_can_run_here(fails, lacks, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda: found(*fails))
    assert cli.run(["doctor"]) == (1 if lacks else 0)
    told = capsys.readouterr().out
    assert ("To run a sweep, this machine lacks" in told) is bool(lacks) and all(what in told for what in lacks)
    assert ("or one on a server (--base-url URL)" in told) is ({"model small", "model large"} <= {*fails})


@pytest.mark.parametrize("comes", [True, False])
def test_doctor_fails_where_a_remedy_that_it_was_told_to_run_does(comes, monkeypatch, capsys):
    pulled, real = [], cli.run
    monkeypatch.setattr(doctor, "examine", lambda: found(*(() if comes and pulled else ("model small",))))
    monkeypatch.setattr(cli, "run", lambda words: pulled.append(words) or (0 if comes else 1))
    assert real(["doctor", "--fix"]) == (0 if comes else 1) and pulled == [["models", "pull", "small"]]


@pytest.mark.parametrize("inner", ["", "/inner"])
def test_a_data_folder_that_cannot_be_is_no_bug_and_the_remedy_is_told(tmp_path, monkeypatch, hc_ray, inner):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HC_RAY_HOME", f"{tmp_path}/file{inner}")
    told = hc_ray("sweep", "--dry-run", code=1)
    assert "bug" not in told and told.startswith(f"hc-ray: {tmp_path}/file")
    assert told.endswith(f"in {tmp_path}/file{inner}: {REMEDY}\n")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    found = {one["name"]: one for one in hc_ray("doctor", "--json", code=1)["findings"]}
    assert "unset RAY_ADDRESS" in found["ray"]["says"] and not found["ray"]["remedy"], "it says its own"
    assert found["runner"]["remedy"].endswith(REMEDY)


def test_a_name_that_is_no_utf_8_is_told_with_the_remedy(hc_ray):
    told = "hc-ray: 't\\udce4sks' is not valid UTF-8: rename it, or set a locale such as LC_ALL=C.UTF-8\n"
    assert hc_ray("report", os.fsdecode(b"t\xe4sks"), code=2) == told


def test_a_folder_whose_name_is_no_utf_8_is_told_with_the_remedy_where_it_matters(home, tmp_path, monkeypatch, hc_ray):
    make_task(tmp_path / "set", "add")
    (odd := tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    monkeypatch.chdir(odd)
    hc_ray("tasks", "check", "../set")
    said = hc_ray("run", "-p", "../set/add", "-a", "nop", "--sandbox", "bwrap", code=2)
    assert "caf\\udce9', the current directory, is not valid UTF-8: rename it, or set" in said


def test_a_server_cannot_command_the_terminal_by_what_it_refuses_with(monkeypatch, hc_ray):
    monkeypatch.setattr(doctor, "examine", raising(ModelError("no model answers: \x1b]0;mine\x07")))
    assert "\x1b" not in hc_ray("doctor", code=2)


def test_a_name_that_no_file_can_have_is_no_bug(tmp_path, monkeypatch, hc_ray):
    monkeypatch.chdir(tmp_path)
    for words in (["sweep", "a" * 300], ["sweep", "-p", "a" * 300]):
        assert hc_ray(*words, code=1) == f"hc-ray: {'a' * 300}: File name too long\n"


def test_a_user_without_a_home_is_asked_to_name_a_data_folder(monkeypatch, hc_ray):
    for name in ("HC_RAY_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: "bash")  # else that of who runs the tests
    assert hc_ray("doctor", code=2).startswith("hc-ray: this user has no home folder: set HC_RAY_HOME to")
    asked = hc_ray("--install-completion", "bash", code=1)
    assert asked.startswith("hc-ray: this user has no home folder: set HOME to")


def test_a_data_folder_without_file_locks_is_told_with_the_remedy(home, monkeypatch, hc_ray):
    monkeypatch.setattr(fcntl, "flock", raising(OSError(errno.ENOSYS, "Function not implemented")))
    told = hc_ray("models", "pull", code=1)
    assert "bug" not in told and str(home) in told and "file system has no locks" in told and REMEDY in told, told


def test_of_a_tree_that_could_not_be_copied_the_first_file_is_told_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    fault = shutil.Error([("/from/a", f"{tmp_path}/a", "No space left on device"), ("/from/b", f"{tmp_path}/b", "so")])
    said, remedy = refusal(fault).splitlines()
    assert said == f"{tmp_path}/a: No space left on device" and "set HC_RAY_HOME" in remedy
    assert refusal(OSError(errno.ENOSPC, "No space left on device")).splitlines()[1] == remedy


def test_a_data_folder_without_room_is_told_once_and_refuses_no_task(home, tmp_path, monkeypatch, hc_ray):
    def full(source, target, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    make_task(tmp_path / "set", "one")
    monkeypatch.setattr("hc_ray.blind.sealing.vault.copy_tree", full)
    said = hc_ray("tasks", "list", tmp_path / "set", code=1)
    assert f"hc-ray: {home}/" in said and ": No space left on device\n" in said and REMEDY in said


def test_the_plan_of_a_sweep_says_that_its_folder_cannot_be_made(tmp_path, hc_ray):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for out, fault in (("file", "file is a file, not a folder"), ("file/x", "file is a file, not a folder"),
                       ("link", "link is a link to nothing, not a folder")):  # fmt: skip
        said = hc_ray("sweep", "-a", "nop", "--dry-run", "-o", f"{tmp_path}/{out}", code=2)
        assert f"{tmp_path}/{fault}; choose another one with -o" in said


def test_a_command_whose_streams_are_closed_does_its_work_all_the_same(tmp_path):
    command = f"{sys.executable} -m hc_ray sweep -a nop --include hc-ray/c-add --dry-run <&- >&- 2>&-"
    assert ran("bash", "-c", command, cwd=tmp_path).returncode == 0


def test_a_command_in_a_folder_that_was_removed_says_so(tmp_path):
    command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m hc_ray sweep -a nop --dry-run"
    ended = ran("bash", "-c", command, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "hc-ray: the current directory no longer exists: change to another one\n"
