"""What the monitor says of actions. The commands stand in ``data/commands.txt``."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.agent.actions import Action
from hc_ray.agent.commands import concerns
from hc_ray.agent.monitor import Advice, Monitor, Step

MONITOR = Monitor("/app")
LINES = (Path(__file__).parent / "data" / "commands.txt").read_text().splitlines()
TABLE = [tuple(line.split("\t", 1)) for line in LINES if line and not line.startswith("#")]
COMMANDS = [(verdict, command.replace("⏎", "\n")) for verdict, command in TABLE]


def run(command):
    return Action(name="sh", body=command)


def told(command):
    return MONITOR.check(run(command))


def verdict_of(advice):
    return "refuse" if not advice.allowed else "warn" if advice.says else "good"


def test_the_table_holds_good_and_bad_commands_enough_and_whatever_is_said_is_a_sentence():
    verdicts = [verdict for verdict, _ in COMMANDS]
    assert len(set(COMMANDS)) == len(COMMANDS) >= 300 and set(verdicts) == {"good", "warn", "refuse", "missed"}
    assert min(verdicts.count("good"), verdicts.count("refuse")) >= 100
    for verdict, command in COMMANDS:
        if verdict in ("warn", "refuse"):
            says = told(command).says
            assert says.startswith("The command ") and says.endswith(".") and "\0" not in says, command


@pytest.mark.parametrize("verdict", ["good", "warn", "refuse", "missed"])
def test_the_monitor_says_of_every_command_what_the_table_says(verdict):
    wanted = "good" if verdict == "missed" else verdict
    wrong = {command: told(command) for kind, command in COMMANDS if kind == verdict}
    assert {command: one.says for command, one in wrong.items() if verdict_of(one) != wanted} == {}


@pytest.mark.parametrize(
    "prefix", ["true; ", "true && ", "true | ", "true\n", "echo $(", "sh -c '", "env ", "(", "sudo "]
)
def test_what_is_refused_stays_so_wherever_it_stands(prefix):
    closing = {"echo $(": ")", "sh -c '": "'", "(": ")"}.get(prefix, "")
    for command in ("rm -fr /", "kill -9 -1", "mkfs.ext4 /dev/sda", "dd if=x of=/dev/sda", "reboot"):
        assert not told(prefix + command + closing).allowed, prefix + command


def test_a_workspace_is_no_folder_to_remove_and_neither_is_one_that_holds_it():
    monitor = Monitor("/home/user/work")
    refused = [f"rm -rf {path}" for path in ("/home", "/home/user", "..", "../*", "/home/user/work", "~/../home/user")]
    allowed = [f"rm -rf {path}" for path in ("/home/other", "build", "/home/user/work2", "../other")]
    assert [monitor.check(run(one)).allowed for one in (*refused, *allowed)] == [False] * 6 + [True] * 4
    assert not Monitor("/").check(run("rm -rf *")).allowed


@given(st.text(alphabet="rm sudo-f/|&;()<>`$'\"\\\n{}[]xE=", max_size=60))
def test_no_text_makes_the_reader_stumble(text):
    concerns(text, "/app")


@pytest.mark.parametrize("text", [
    "x='eval \"$x\"; eval \"$x\"'; eval \"$x\"", "a=xx;" + "a=$a$a;" * 60, "sudo " * 10_000 + "ls",
    "echo xargs | xargs xargs", "find . -exec " * 2000, "$(" * 5000, "((" * 5000, "'" * 9999, "a()" * 9000,
    "x" * 90_000, "cat <<A\n" * 300, "{" * 9000, "f() {" + "f " * 9000, "\"$(" * 3000, "\U000f0000", "a\ue020b", "[[",
])  # fmt: skip
def test_no_command_keeps_the_monitor_busy(text):
    begun = time.process_time()
    concerns(text, "/app")
    assert time.process_time() - begun < 3.0


@pytest.mark.parametrize("path", ["x", "../x", "/tmp/x", "/etc/widget.conf", "/srv/site/x"])
def test_files_may_be_written_anywhere(path):
    assert MONITOR.check(Action(name="write", argument=path, body="reboot\n")) == Advice()


def did(command, result="exit code 0", *, failed=False):
    return Step(action=run(command), result=result, failed=failed)


def back(*steps):
    return MONITOR.look_back(steps)


def test_an_action_that_comes_to_the_same_is_warned_of_at_three_and_ends_the_lineage_at_six():
    once, other = did("ls"), did("pwd")
    assert back(once, once) == Advice()
    for count in (3, 4, 5):
        advice = back(*[once] * count)
        assert advice.allowed and advice.rule == "repetition" and f"{count} times" in advice.says
    assert not back(*[once] * 6).allowed
    assert back(*[once, other] * 2, once).rule == "repetition", "two in turn"
    assert not back(*[other, once] * 6).allowed
    once = did("make", "1 error at 0x7f00aabbccdd")
    assert back(once, once, did("make", "2 errors")) == Advice()
    elsewhere = did("make", "1 error at 0x7f11aabbccdd")
    assert back(once, once, elsewhere).rule == "repetition", "the same but for an address"
    between = [did(f"cat {number}", str(number)) for number in range(11)]
    assert back(once, once, *between, once) == Advice()
    assert back(*(Step(action=Action(name="write", argument="a", body=body)) for body in "1234")) == Advice()


def test_actions_that_fail_in_a_row_are_warned_of_now_and_then():
    failed = [did(f"try {number}", str(number), failed=True) for number in range(12)]
    said = [back(*failed[:count]).rule for count in range(1, 13)]
    assert said == ["", "", "", "", "", "progress"] * 2 and back(*failed[:5], did("ls"), failed[5]) == Advice()
