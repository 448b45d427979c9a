import time

import pytest

from hc_ray.agent.actions import Action
from hc_ray.agent.terminal import PLACE, Limits, Observation, Terminal
from tests.fakes.contract_task import shell as inside
from tests.fakes.sandbox_home import opened

LIMITS = Limits(seconds=20, most_seconds=60, shown=900)


@pytest.fixture(scope="module", params=["bwrap", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.proof])])
def place(request, public_root):
    """Docker is a proof: what both backends do for every command is shown by the sandbox contract in every run."""
    with opened(request.param, public_root) as one:
        yield one


@pytest.fixture
async def terminal(box):
    return Terminal(box, LIMITS)


async def sh(terminal: Terminal, command: str, seconds: float | None = None) -> Observation:
    return await terminal.perform(Action(name="sh", body=command, seconds=seconds))


async def write(terminal: Terminal, path: str, text: str) -> Observation:
    return await terminal.perform(Action(name="write", argument=path, body=text))


def hunk(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


async def edit(terminal: Terminal, path: str, *hunks: str) -> Observation:
    return await terminal.perform(Action(name="edit", argument=path, body="".join(hunks)))


async def test_working_directory_and_exported_variables_carry_over_and_nothing_else(terminal):
    first = await sh(terminal, "export A='x y\nz'; B=2; mkdir -p 'd e'; cd 'd e'\nset -eu")
    assert not first.failed and "working directory: /app/d e" in first.says
    assert (await sh(terminal, 'pwd; echo "$A-${B-unset}-$GREETING"; cd ..')).says == (
        "exit code 0\nworking directory: /app\n/app/d e\nx y\nz-unset-hello"
    )
    assert (await sh(terminal, "cd d?e; false")).says == "exit code 1\nworking directory: /app/d e"
    assert (await sh(terminal, "pwd; exit 7")).says == "exit code 7\n/app/d e"
    assert (await sh(terminal, "ln -s . /app/l; cd ../l; rm -r 'd e'; export PATH=/nowhere")).says.endswith(": /app/l")
    assert (
        await sh(terminal, "echo still; pwd; echo $PWD; PATH=/bin; rm l")
    ).says == "exit code 0\nstill\n/app/l\n/app/l"
    assert (await sh(terminal, "pwd; /bin/ls")).says == "exit code 0\nworking directory: /app\n/app\ndata.txt"


async def test_both_streams_come_in_their_true_order_with_the_exit_code(terminal):
    done = await sh(
        terminal, "for i in 1 2 3; do echo out $i; echo err $i >&2; done; python3 -c 'import sys; sys.exit(3)'"
    )
    assert done.says == "exit code 3\n" + "\n".join(f"{kind} {i}" for i in "123" for kind in ("out", "err"))
    assert done.failed
    odd = await sh(terminal, "echo 'unbalanced")
    assert odd.failed and "line 1: unexpected EOF" in odd.says
    assert (await sh(terminal, "cat <<'X'\n$HOME `ls`\nX\ncommand_of_nobody")).says.startswith(
        "exit code 127\n$HOME `ls`"
    )


SERVE = "python3 -m http.server 8123 --bind 127.0.0.1 &"
ASK = (
    "for i in $(seq 50); do python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/data.txt')"
)
ASK += '.read())" 2>/dev/null && break; sleep 0.2; done'


async def test_a_service_that_one_command_starts_answers_in_the_next_and_nothing_waits_for_a_person(terminal):
    begun = time.monotonic()
    started = await sh(terminal, f"{SERVE} echo started")
    assert started.says == "exit code 0\nstarted" and time.monotonic() - begun < 10
    assert (await sh(terminal, ASK)).says == "exit code 0\nb'one\\n'"
    assert "GET /data.txt" in await inside(terminal.sandbox, f"cat {PLACE}/output-1.txt"), "its output has a place"
    begun = time.monotonic()
    asked = await sh(terminal, "read line || echo 'no input'; cat; python3 -c 'print(input())'")
    assert asked.failed and "no input" in asked.says and "EOFError" in asked.says
    paged = await sh(terminal, 'echo text | ${PAGER:-less}; seq 100 | more | tail -n 1; echo "$TERM $GIT_PAGER"')
    assert paged.says == "exit code 0\ntext\n100\ndumb cat" and time.monotonic() - begun < 15


async def test_a_command_past_its_time_is_stopped_with_what_it_said_and_the_sandbox_lives(terminal):
    begun = time.monotonic()
    done = await sh(terminal, "echo begun; sleep 100 | cat; echo never", 1)
    assert done.failed and time.monotonic() - begun < 12
    assert done.says.startswith("stopped at its time limit of 1 s (allow up to 60 s with `sh timeout=SECONDS`")
    assert done.says.endswith("\nbegun")
    assert (await sh(terminal, "grep -alz '^100$' /proc/[0-9]*/cmdline || echo gone")).says == "exit code 0\ngone"
    assert (await sh(terminal, "sleep 1; echo slept", 30)).says == "exit code 0\nslept"
    assert (await sh(Terminal(terminal.sandbox, Limits(seconds=0.2, most_seconds=0.5)), "sleep 9", 600)).failed


@pytest.mark.parametrize("forged", [
    "{}", "[1]", "7", "", "[" * 100_000, '{"head": 1}',
    '{"head": "", "tail": "", "size": 1e999, "path": "", "stopped": ""}',
])  # fmt: skip
async def test_a_command_that_ends_what_runs_it_and_answers_instead_has_failed_and_the_session_goes_on(
    terminal, forged
):
    await write(terminal, "forged", forged)
    done = await sh(terminal, "cat forged > /proc/$PPID/fd/1; kill -9 $PPID")
    assert done.failed and done.says.startswith("What runs commands was ended before it told what came of the command")
    assert (await sh(terminal, "echo alive")).says == "exit code 0\nalive"


async def test_what_steers_a_terminal_is_left_out_of_what_a_model_is_told_and_stays_in_the_file(terminal):
    styled = r"\033[1;31mred\033[0m \033]8;;http://h\033\\link\033]8;;\a\033(B\033[?25l \033=end"
    assert (await sh(terminal, f"printf '{styled}'")).says == "exit code 0\nred link end"
    assert "^[[1;31mred" in (await sh(terminal, f"cat -v {PLACE}/output-1.txt")).says


async def test_binary_output_is_named_and_output_without_end_is_stopped_and_bounded(terminal):
    done = await sh(terminal, "printf 'a\\0b\\377'; exit 2")
    assert done.says == f"exit code 2\n(binary output, not shown; all 4 bytes are in {PLACE}/output-1.txt)"
    done = await sh(terminal, "cat absent; printf 'a\\0b'")
    assert "absent: No such file or directory\n(binary output, not shown" in done.says
    assert (await sh(terminal, "printf 'caf\\351\\n'")).says == "exit code 0\ncaf�"
    done = await sh(terminal, "yes 'over and over'")
    assert done.failed and done.says.startswith("stopped: it wrote more than 64 MiB")
    assert len(done.says) < 2 * LIMITS.shown and (await sh(terminal, "echo alive")).says == "exit code 0\nalive"


async def test_a_long_output_shows_whole_lines_of_its_head_and_tail_and_names_a_file_with_all(terminal):
    done = await sh(terminal, "seq 1 4000")
    status, *lines = done.says.split("\n")
    gap = next(i for i, line in enumerate(lines) if line.startswith("[…"))
    head, tail = [int(line) for line in lines[:gap]], [int(line) for line in lines[gap + 1 :]]
    assert status == "exit code 0" and head == list(range(1, len(head) + 1))
    assert tail == list(range(4001 - len(tail), 4001)) and f"{4000 - len(head) - len(tail)} lines" in lines[gap]
    path = lines[gap].split(" is in ")[1].split(" ")[0]
    assert (await inside(terminal.sandbox, f"wc -l < {path}")).strip() == "4000" and len(done.says) < LIMITS.shown + 200
    one = await sh(terminal, "head -c 5000 /dev/zero | tr '\\0' x; printf y")
    assert one.says.endswith("xxxy") and "4,101 bytes left out" in one.says


async def test_files_are_written_where_the_session_is_and_stay_as_they_may_be_run(terminal):
    await sh(terminal, "mkdir sub; cd sub; printf '#!/bin/sh\\necho 1\\n' > tool; printf x > plain; chmod 755 tool")
    assert (await write(terminal, "tool", "echo 2\n")).says == "wrote /app/sub/tool: 1 lines"
    for path, text in (("new/a.txt", "a\n"), ("../up", "u\n"), ("/tmp/far", ""), ("~/home", "h\n"), ("run.sh", "ls\n")):
        assert not (await write(terminal, path, text)).failed
    seen = await inside(
        terminal.sandbox, "cd /app/sub; cat tool new/a.txt ../up /tmp/far ~/home; stat -c %a tool run.sh new/a.txt"
    )
    assert seen == "echo 2\na\nu\nh\n755\n755\n644\n"
    assert (await write(terminal, "plain/below", "x")).says.startswith("error: ")
    assert (await sh(terminal, "cat plain")).says == "exit code 0\nx"


async def test_an_edit_replaces_a_passage_that_occurs_once_and_changes_nothing_otherwise(terminal):
    await sh(terminal, "mkdir s; cd s; printf 'one\\ntwo\\ntwo\\nlast' > f; chmod +x f; printf '\\377' > odd")
    assert (await edit(terminal, "f", hunk("one\n", "1\n"), hunk("two\n", "2\n"))).says == (
        "error: passage 2 occurs 2 times in /app/s/f, not once; nothing was changed"
    )
    assert "occurs 0 times" in (await edit(terminal, "f", hunk("three\n", "3\n"))).says
    assert (await edit(terminal, "f", hunk("one\ntwo\n", "1\n"), hunk("last\n", "end\n"))).says == "edited /app/s/f"
    assert await inside(terminal.sandbox, "cat /app/s/f; [ -x /app/s/f ] && echo +") == "1\ntwo\nend+\n"
    assert (await edit(terminal, "f", hunk("tw\n", "TW\n"))).says == "edited /app/s/f", "a part of a line"
    assert await inside(terminal.sandbox, "cat /app/s/f") == "1\nTWo\nend"
    assert (await edit(terminal, "absent", hunk("a\n", "b\n"))).says == "error: /app/s/absent is not a file"
    assert "not UTF-8" in (await edit(terminal, "odd", hunk("a\n", "b\n"))).says


async def test_what_a_session_keeps_is_nothing_that_it_made(terminal):
    await sh(terminal, "export A=1; cd /opt; seq 99999")
    assert (await terminal.sandbox.difference()).changed == ()


async def test_an_edit_keeps_line_ends_that_no_output_shows_and_tells_the_nearest_lines(terminal):
    await sh(terminal, "mkdir w; cd w; printf 'first = 1\\r\\nsecond = 2\\r\\n' > f")
    assert (await edit(terminal, "f", hunk("first = 1\n", "first = 3\n"))).says == "edited /app/w/f"
    assert await inside(terminal.sandbox, "od -An -c /app/w/f | tr -d ' \\n'") == "first=3\\r\\nsecond=2\\r\\n"
    told = (await edit(terminal, "f", hunk("second = 9\n", "second = 4\n"))).says
    assert "occurs 0 times" in told and told.endswith("The nearest lines of the file are:\nsecond = 2")
