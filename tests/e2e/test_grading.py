"""Blind grading in real sandboxes, of scripts as people write them. References and untouched environments are graded in
test_starter_graded.py, what forged verdicts earn is tried in tests/boundary/test_cheats.py."""

from collections.abc import AsyncIterator
from pathlib import Path
from tarfile import SYMTYPE

import pytest

from hc_ray.blind.grading import control as oracle
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.grading.verify import grade
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from tests.fakes.sandbox_home import BACKENDS, closing, open_place
from tests.fakes.tars import make_tar, member
from tests.fakes.tasks import sealed_task
from tests.fakes.terminal_tasks import DATASET

GOOD = "def add(a, b):\n    return a + b\n"
IN_PROCESS = """import sys
sys.path.insert(0, "/app")


def test_adds():
    from add import add
    assert add(2, 3) == 5
"""


@pytest.fixture(params=BACKENDS)
async def place(request: pytest.FixtureRequest, ground: Path) -> AsyncIterator[SandboxPlace]:
    made = open_place(request.param, ground / "public")
    yield made
    await made.close()


async def graded(
    task: Task, files: dict[str, str], place: SandboxPlace, ground: Path, *links: tuple[str, str]
) -> Verdict:
    tar = make_tar(files, *(member(name, SYMTYPE, target) for name, target in links))
    submission = oracle.make_submission(task, tar, "trial")
    return await grade(task, submission, sealed_root=ground / "sealed", place=place)


async def test_a_syntax_error_under_a_script_that_stops_and_a_verifier_past_its_time_are_fails(place, ground):
    script = "set -e\ncd /app\npython3 -m pytest -q /tests/test_outputs.py\necho 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, tests={"test.sh": script, "test_outputs.py": IN_PROCESS})
    broken = await graded(task, {"/app/add.py": "def add(a, b:\n"}, place, ground)
    assert (broken.passed, broken.cause) == (False, "no_verdict")
    assert (await graded(task, {"/app/add.py": GOOD}, place, ground)).passed is True
    toml = "[verifier]\ntimeout_sec = 1.0\n"
    task = sealed_task(ground, toml=toml, tests={"test.sh": "echo 1 > /logs/verifier/reward.txt\nsleep 600 & wait\n"})
    verdict = await graded(task, {"/app/a": ""}, place, ground)
    assert (verdict.passed, verdict.cause) == (False, "timeout") and verdict.seconds < 30


async def test_no_link_leads_the_tests_into_modules_of_the_candidate_s_beside_pytest(place, ground):
    evil = {"/srv/evil/pytest.py": "import os\nos._exit(0)\n"}
    script = "cd /app/src\npython3 -m pytest -q /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    for link, folder in (("app", "/app"), ("app/src", "/app/src")):
        task = sealed_task(ground, tests={"test.sh": script.replace("/app/src", folder), "test_outputs.py": IN_PROCESS})
        verdict = await graded(task, evil, place, ground, (link, "/srv/evil"))
        assert (verdict.cause, verdict.tampered) == ("tampered", ("/srv/evil/pytest.py",))
    assert (await graded(task, {"/srv/good/add.py": GOOD}, place, ground, ("app", "/srv/good"))).passed is True


async def test_no_link_leads_to_what_the_tests_expect_or_swallows_what_they_bring(place, ground):
    script = "cp /tests/check.sh /app/ && sh /app/check.sh && echo 1 > /logs/verifier/reward.txt\n"
    check = "cat /tests/expected.txt | diff - /app/out.txt\n"
    task = sealed_task(ground, tests={"test.sh": script, "check.sh": check, "expected.txt": "42\n"})
    for links in (
        [("app/out.txt", "/tests/expected.txt")], [("app/out.txt", "/proc/self/root/tests/expected.txt")],
        [("app/way", "/"), ("app/out.txt", "way/tests/expected.txt")], [("app/out.txt", "/dev/stdin")],
        [("app/check.sh", "/dev/null")],
    ):  # fmt: skip
        verdict = await graded(task, {}, place, ground, *links)
        assert (verdict.passed, verdict.left_behind) == (False, (f"/{links[-1][0]}",)), verdict
    right = await graded(task, {"/app/v1/out": "42\n"}, place, ground, ("app/new", "v1"), ("app/out.txt", "new/out"))
    assert (right.passed, right.left_behind) == (True, ())


@pytest.mark.docker
async def test_what_programs_of_the_tests_stand_on_and_start_by_themselves_is_the_image_s(ground):
    dockerfile = (
        "FROM python:3.11-slim-bookworm\nWORKDIR /app\n"
        "ENV PATH=/usr/local/tool/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        "RUN mkdir -p /usr/local/tool/bin /usr/local/tool/lib && touch /usr/local/tool/lib/tool.sh"
        " && useradd -d /srv/db db && cd /usr/local/tool/bin&& printf"
        " '#!/bin/sh\\n. /usr/local/tool/lib/tool.sh\\ngrep -q 42 /app/out\\n' > tool && chmod 755 tool\n"
    )
    script = "su - db -c true\ndpkg -l > /dev/null\ntool && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, dockerfile=dockerfile, tests={"test.sh": script})
    forge, earned = "#!/bin/sh\necho 42 > /app/out\n", {}
    paths = ("/usr/local/tool/lib/tool.sh", "/usr/local/bin/dpkg-query", "/srv/db/.profile", "/app/out")
    async with closing("docker", ground / "public") as place:
        for path in paths:
            earned[path] = await graded(task, {"/app/x": "", path: forge}, place, ground)
    assert [earned[path].passed for path in paths] == [False, False, False, True]
    assert earned[paths[0]].tampered == paths[:1]
    assert [earned[path].left_behind for path in paths[1:3]] == [paths[1:2], paths[2:3]]


SWAPS = """import ctypes, os, sys
top = sys.argv[1].encode()
os.chmod(top, 0o777)
os.symlink("/tests", top + b".link")
while True:
    ctypes.CDLL(None).renameat2(-100, top, -100, top + b".link", 2)
"""
BOXED = """import os

from box import Box


def test_what_lies_in_a_box_may_be_exchanged_for_links():
    before = sorted(os.listdir("/tests"))
    with Box(folders=["here"]) as box:
        box.start(["python3", "swap.py", box.path("here")])
        for _ in range(300):
            for act in (box.tree, box.bytes, lambda name: box.put(name + "/new", "")):
                try:
                    act("here")
                except OSError:
                    pass
    assert (os.stat("/tests").st_mode & 0o777, sorted(os.listdir("/tests"))) == (0o700, before)
"""
LATE = """from child import run


def test_what_is_imported_late_is_no_child_s():
    run(["sh", "-c", "echo 'raise SystemExit' > /tests/colorsys.py"])
    import colorsys
"""


def of_our_own(ground: Path, test_outputs: str) -> Task:
    shared = {path.name: path.read_text() for path in (DATASET / "shared-tests").iterdir() if path.is_file()}
    return sealed_task(ground, tests={**shared, "test_outputs.py": test_outputs})


@pytest.mark.docker
async def test_a_program_that_lives_beside_our_own_tests_opens_no_file_of_theirs_by_a_link(ground):
    task = of_our_own(ground, BOXED)
    async with closing("docker", ground / "public") as place:
        assert (await graded(task, {"/app/swap.py": SWAPS}, place, ground)).passed is True


async def test_our_own_tests_import_nothing_that_a_child_of_theirs_lays_beside_them(place, ground):
    task = of_our_own(ground, LATE)
    assert (await graded(task, {"/app/add.py": GOOD}, place, ground)).passed is True


async def test_no_library_of_the_candidate_s_is_loaded_by_programs_of_the_tests_from_where_they_run(place, ground):
    """An empty entry, as ``LD_LIBRARY_PATH=/usr/local/lib:$LD_LIBRARY_PATH`` leaves one, means that folder."""
    preferred, first = "/app/lib/glibc-hwcaps/x86-64-v2/libc.so.6", "FROM python:3.11-slim-bookworm\nWORKDIR /app\n"
    script = "[ -e add.py ] && echo 1 > /logs/verifier/reward.txt\n"
    exported = f"export LD_LIBRARY_PATH=/srv/lib:$LD_LIBRARY_PATH\n{script}"
    for dockerfile, test_sh, path in (
        (f"{first}ENV LD_LIBRARY_PATH=lib\n", script, preferred), (first, exported, "/app/libc.so.6"),
    ):  # fmt: skip
        task = sealed_task(ground, dockerfile=dockerfile, tests={"test.sh": test_sh})
        assert (await graded(task, {"/app/add.py": "", path: ""}, place, ground)).tampered == (path,)
        mine = {"/app/add.py": "", path.replace("libc", "libmine"): ""}
        assert (await graded(task, mine, place, ground)).passed is True


async def test_no_module_or_header_of_the_candidate_s_comes_first_where_a_variable_names_its_folder(ground):
    dockerfile = "FROM debian:bookworm-slim\nWORKDIR /app\nENV PERL5LIB=/app/lib CPATH=/app/inc\n"
    script = "perl -Mstrict -MMine -e 1 && echo '#include <mine.h>' | cc -E - && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, dockerfile=dockerfile, tests={"test.sh": script})
    mine = {"/app/lib/Mine.pm": "1;", "/app/inc/mine.h": ""}
    async with closing("bwrap", ground / "public") as place:
        verdict = await graded(task, {**mine, "/app/lib/strict.pm": "", "/app/inc/stdio.h": ""}, place, ground)
    assert (verdict.passed, verdict.left_behind) == (True, ("/app/inc/stdio.h", "/app/lib/strict.pm"))


@pytest.mark.docker
async def test_no_compiler_takes_a_candidate_s_header_of_either_kind_for_the_image_s(ground):
    script = "gcc -O2 -o /tmp/check /tests/check.c && /tmp/check; [ $? = 0 ] && echo 1 > /logs/verifier/reward.txt\n"
    check = '#include <assert.h>\n#include <unistd.h>\nint main(void) { assert(access("/app/out", F_OK) == 0); }\n'
    tests = {"test.sh": script, "check.c": check}
    task = sealed_task(ground, dockerfile="FROM gcc:12-bookworm\nWORKDIR /app\n", tests=tests)
    forge = '#include "/usr/include/assert.h"\n#undef assert\n#define assert(x) ((void)0)\n'
    compile_it = f"cd /usr/local/include; mkdir -p assert.h.gch; echo '{forge}' > /app/forge.h\n"
    compile_it += "for o in -O0 -O2; do gcc $o -x c-header /app/forge.h -o assert.h.gch/x$o; done; echo > mine.h\n"
    async with closing("docker", ground / "public") as place:
        sandbox = await place.create(task, "forges")
        done = await sandbox.exec(["sh", "-c", compile_it], timeout=60)
        tar = (await sandbox.difference()).tar
        await sandbox.close()
        verdict = await grade(task, oracle.make_submission(task, tar, "t"), sealed_root=ground / "sealed", place=place)
    assert done.exit_code == 0 and verdict.cause == "no_verdict", verdict
    left = {f"/usr/local/include/assert.h.gch/x{level}" for level in ("-O0", "-O2")}
    assert left <= {*verdict.left_behind} and "/usr/local/include/mine.h" not in verdict.left_behind


async def test_what_shells_read_unasked_is_no_candidate_s_and_modules_are_carried_beside_an_empty_entry(place, ground):
    env = "ENV BASH_ENV=/app/env.sh PYTHONPATH=/srv/x:\n"
    dockerfile = f"FROM python:3.11-slim-bookworm\nWORKDIR /app\n{env}"
    script = "python3 -c 'import add' && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, dockerfile=dockerfile, tests={"test.sh": script})
    forge = {"/app/env.sh": "echo 1 > /logs/verifier/reward.txt\n"}
    assert (await graded(task, forge, place, ground)).cause == "no_verdict"
    verdict = await graded(task, {**forge, "/app/add.py": GOOD}, place, ground)
    assert (verdict.passed, verdict.left_behind) == (True, ("/app/env.sh",))


async def test_no_settings_of_the_candidate_s_lie_on_the_way_up_from_the_tests(ground):
    script = "cd /tests\ngit diff --no-index expected.txt /app/out.txt && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, tests={"test.sh": script, "expected.txt": "42\n"})
    forge = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
    repository = {"/.git/HEAD": "ref: refs/heads/main\n", "/.git/refs/heads/x": "", "/.git/objects/x": ""}
    config = "[core]\n\trepositoryformatversion = 0\n[diff]\n\texternal = /app/forge\n"
    files = {**repository, "/.git/config": config, "/app/forge": forge, "/app/out.txt": "no\n"}
    async with closing("bwrap", ground / "public") as place:
        assert (await graded(task, files, place, ground)).cause == "no_verdict"


async def test_the_witness_is_found_by_scripts_that_set_the_search_path_anew(place: SandboxPlace, ground: Path) -> None:
    script = (
        "export PYTHONPATH=/app${PYTEST_AT:+:$PYTEST_AT}\ncd /tests\n"
        "python3 -m pytest -q -p no:cacheprovider test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    )
    # Where the image brings no pytest of its own, the script names the one that the runner lends.
    toml = '[verifier]\nenv = {PYTEST_AT = "/.hc/lib/pytest_pure"}\n'
    task = sealed_task(ground, toml=toml, tests={"test.sh": script, "test_outputs.py": IN_PROCESS})
    verdict = await graded(task, {"/app/add.py": GOOD}, place, ground)
    assert (verdict.passed, verdict.witness) == (True, "agrees"), verdict
