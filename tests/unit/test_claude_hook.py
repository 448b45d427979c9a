import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.agent.claude_hook import answer
from tests.fakes.sweeps import REPOSITORY, command

BASH = {"session_id": "s", "cwd": "/home/ann/work", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "permission_mode": "default"}  # fmt: skip


def event(command: object = "ls", **more: object) -> bytes:
    return json.dumps({**BASH, "tool_input": {"command": command, "description": "d"}, **more}).encode()


def hook(text: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command("monitor", "--hook", *words), input=text, capture_output=True, cwd=REPOSITORY, timeout=60
    )


@pytest.fixture(autouse=True)
def ann(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")


@pytest.mark.parametrize(
    "command", ["rm -rf /", "rm -rf ~", 'rm -rf "$HOME/"', "cd ..; rm -rf *", "mkfs.ext4 /dev/sda"]
)
def test_what_the_monitor_refuses_is_blocked_in_both_forms_and_claude_goes_on(command):
    told = answer(event(command))
    assert (told["continue"], told["decision"]) == (True, "block") and told["reason"].startswith("The command ")
    assert told["hookSpecificOutput"] == {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                          "permissionDecisionReason": told["reason"]}  # fmt: skip


def test_what_it_does_not_mind_is_left_to_the_users_permissions_unless_it_is_to_approve():
    for quiet in (event(), event("rm -rf build"), event("rm -rf /home/bob", cwd="/srv")):
        assert answer(quiet) == {"continue": True}
        approved, no = answer(quiet, approve=True), "the monitor has no objection"
        assert approved == {"continue": True, "decision": "approve", "reason": no, "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": no}}  # fmt: skip
    assert answer(event(tool_name="WebFetch", tool_input={"url": "u"}), approve=True) == {"continue": True}
    warned = answer(event("less notes.txt"))
    both = answer(event("less notes.txt"), approve=True)["hookSpecificOutput"]
    assert both["permissionDecision"] == "allow" and both["additionalContext"] == both["permissionDecisionReason"]
    assert "decision" not in warned and "waits for a person" in warned["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize(("tool", "field"), [("Write", "file_path"), ("NotebookEdit", "notebook_path")])
def test_files_are_written_by_the_same_rules(tool, field):
    def written(path: str) -> dict:
        return answer(event(tool_name=tool, tool_input={field: path}))

    assert written("/dev/sda")["decision"] == "block" and "device /dev/sda" in written("/dev/sda")["reason"]
    assert written("/etc/hosts; rm -rf /") == written("notes 'a'.md") == {"continue": True}


def _transcript(path: Path, *runs: tuple[str, str, bool]) -> str:
    lines = []
    for number, (run, result, failed) in enumerate(runs):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": run}}
        back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result, "is_error": failed}
        lines += [{"type": kind, "message": {"role": kind, "content": [block]}} for kind, block in
                  (("assistant", use), ("user", back))]  # fmt: skip
    broken = ["", "[1]", '{"message": "x"}', '{"message": {"content": "hello"}}']
    path.write_text("\n".join([*broken, *map(json.dumps, lines)]))
    return str(path)


def test_repetition_and_failures_are_read_from_the_transcript(tmp_path):
    def told(command: str, *runs: tuple[str, str, bool]) -> dict:
        return answer(event(command, transcript_path=_transcript(tmp_path / "t.jsonl", *runs)))

    same = ("pytest -q", "1 failed", False)
    assert told("pytest -q", same, same) == told("ls", *[same] * 9) == {"continue": True}
    assert "3 times with the same result" in told("pytest -q", *[same] * 3)["hookSpecificOutput"]["additionalContext"]
    ended = told("pytest -q", *[same] * 6)
    assert (ended["continue"], ended["decision"]) == (False, "block") and "6 times" in ended["stopReason"]
    blocked = ("pytest -q", ended["reason"], True)
    assert told("pytest -q", *[same] * 6, blocked, blocked)["decision"] == "block", "a block is no new result"
    failing = [(f"make {i}", "no rule", True) for i in range(6)]
    assert "The last 6 actions failed" in told("ls", *failing)["hookSpecificOutput"]["additionalContext"]
    big = Path(_transcript(tmp_path / "big.jsonl", ("cat log", "x" * 3_000_000, False), *[same] * 3))
    assert "3 times" in str(answer(event("pytest -q", transcript_path=str(big))))


@pytest.mark.parametrize("bad", [
    b"", b"{", b"[]", b"7", b"\xff", b'{"tool_name": "Bash"}', event(7), event(tool_input=[]), event(tool_name=None),
    event(hook_event_name="Stop"), event(cwd=3), b"[" * 99_999,
])  # fmt: skip
def test_what_is_no_event_is_refused(bad):
    with pytest.raises(ValueError, match=r"^the event "):
        answer(bad)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from([*BASH, "tool_input", "command"]), inner, max_size=5),
                    max_leaves=9), st.booleans())  # fmt: skip
def test_whatever_is_an_event_is_answered_and_nothing_else_is_raised(data, whole):
    try:
        assert answer(json.dumps({**BASH, **data} if whole and isinstance(data, dict) else data).encode())["continue"]
    except ValueError as error:
        assert str(error).startswith("the event ")


def test_the_command_answers_and_what_is_no_event_blocks_nothing():
    done = hook(event("rm -rf /"))
    assert done.returncode == 0 and json.loads(done.stdout)["decision"] == "block" and done.stderr == b""
    assert json.loads(hook(event(), "--approve").stdout)["decision"] == "approve"
    closed = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *command("monitor", "--hook")], capture_output=True, timeout=60
    )
    assert closed.returncode == 1 and b"the event is not JSON" in closed.stderr
    broken = hook(b"no event")
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert broken.stderr == b"hc-ray monitor: the event is not JSON; the action proceeds unchecked\n"
