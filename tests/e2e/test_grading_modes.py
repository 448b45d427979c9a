"""Shared and separate grading in real containers: services that live, sandboxes that are given away, images of the
verifier's own. What cheats earn there is tried in tests/boundary/test_cheats.py."""

import subprocess
from pathlib import Path

import pytest

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.blind.grading import control as oracle
from hc_ray.blind.grading.separate import grade_fresh
from hc_ray.blind.grading.shared import grade_shared
from hc_ray.blind.grading.shared_grading import Grading
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.domain.errors import SandboxError
from hc_ray.domain.task import Task
from hc_ray.machine.owner import current_owner
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from hc_ray_actors.jobs.regrade import regrade, unseal
from tests.fakes.listeners import Watcher
from tests.fakes.sweeps import results, swept
from tests.fakes.tasks import SOLVE_SH, make_task, sealed_task

pytestmark = pytest.mark.docker
SHARED = '[verifier]\ntimeout_sec = 60.0\nenvironment_mode = "shared"\n'
SERVER = """import socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"pong")
class Server(socketserver.TCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", 8123), Answer).serve_forever()
"""
SERVES = (
    "#!/bin/bash\ncat > /app/server.py <<'END'\n"
    + SERVER
    + "END\ntouch /srv/beside /usr/local/bin/of-its-own\nln -sf server.py /app/link\n"
    "setsid python3 /app/server.py </dev/null >/dev/null 2>&1 &\n"
    "for i in $(seq 100); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123), 1)' 2>/dev/null"
    " && break; sleep 0.1; done\n"
)
WAITS = "touch /app/begun; until [ -e /app/ended ]; do sleep 0.02; done\n"
LURKS = "until [ -e /app/begun ]; do sleep 0.02; done; touch /app/pytest.py; rm /app/pytest.py; touch /app/ended"
"""Puts a module before the tests' own for a moment, while they run."""
CHANGES = (
    "all=$(find /usr -path '*/IO/File.pm'); for one in $all; do touch $one.new; rm $one.new; done; "
    "until [ -e /app/begun ]; do sleep 0.02; done; for one in $all; do echo '# changed' >> $one; done; touch /app/ended"
)
"""Changes modules of perl's while the tests run. (Folders that overlayfs has to copy first would be seen.)"""
ASKS = """import os
import socket


def test_the_service_answers():
    with socket.create_connection(("127.0.0.1", 8123), 5) as wire:
        assert wire.recv(10) == b"pong"


def test_the_tests_run_as_the_verifier_asks():
    assert os.geteuid() == int(os.environ["WANTED"])
"""


def serving(ground: Path, user: str = "", first: str = "") -> Task:
    wanted = "65534" if user else "0"
    toml = f"{SHARED}{user}\n[verifier.env]\nWANTED = '{wanted}'\n"
    test_sh = f"{first}cd /app\npython3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py\n"
    test_sh += "[ $? = 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    tests = {"test.sh": test_sh, "test_outputs.py": ASKS}
    return sealed_task(ground, toml=toml, tests=tests, solution={"solve.sh": SERVES})


async def given_away(
    places: tuple[DockerPlace, DockerPlace], ground: Path, task: Task, does: str, files: dict[str, str] | None = None
) -> Verdict:
    """The verdict on a sandbox in which ``does`` was run and ended, and whatever it started lives on."""
    sandbox = await places[0].create(task, "lives")
    await sandbox.put({path: text.encode() for path, text in (files or {}).items()})
    done = await sandbox.exec(["sh", "-c", does], timeout=60)
    assert done.exit_code == 0, done
    return await graded_alive(places, ground, task, await sandbox.hand_over())


async def graded_alive(
    places: tuple[DockerPlace, DockerPlace], ground: Path, task: Task, ticket: str | None, tar: bytes = b""
) -> Verdict:
    submission = oracle.make_submission(task, tar, "trial").model_copy(update={"living": ticket})
    return await grade_shared(task, submission, sealed_root=ground / "sealed", place=places[1], spared=())


async def test_a_service_of_the_reference_is_alive_in_shared_grading_and_not_in_isolated(places, ground):
    task = serving(ground)
    roots = {"sealed_root": ground / "sealed", "place": places[1]}
    control = await oracle.control(task, **roots)  # type: ignore[arg-type]
    assert (control.passed, control.witness, control.mode) == (True, "agrees", "shared"), control
    nothing = await grade_shared(task, None, spared=None, careful=False, **roots)  # type: ignore[arg-type]
    assert (nothing.passed, nothing.cause) == (False, "failed"), nothing
    reference = await oracle.reference(task, **roots)  # type: ignore[arg-type]
    isolated = await grade(task, reference, **roots)  # type: ignore[arg-type]
    assert (isolated.passed, isolated.cause, isolated.mode) == (False, "failed", "isolated"), isolated


async def test_a_sandbox_reaches_the_verifier_alive_and_its_giver_no_more(places, ground):
    task = serving(ground, user='user = "nobody"')
    base = await places[0].create(task, "base")
    sandbox = await base.fork("fork")
    await sandbox.exec(["bash", "-c", SERVES], timeout=30)
    ticket = await sandbox.hand_over()
    with pytest.raises(SandboxError):
        await sandbox.exec(["true"], timeout=10)
    await sandbox.close()
    await base.close()
    verdict = await graded_alive(places, ground, task, ticket)
    assert (verdict.passed, verdict.cause, verdict.witness) == (True, "passed", "agrees"), verdict
    left = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=True).stdout
    assert sandbox.container not in left


async def test_a_module_that_comes_while_the_tests_run_is_seen_however_short_its_stay(places, ground):
    task = serving(ground, first=WAITS)
    verdict = await given_away(places, ground, task, f"{SERVES}\n({LURKS}) </dev/null >/dev/null 2>&1 &")
    assert (verdict.cause, verdict.tampered) == ("tampered", ("/app/pytest.py",)), verdict


async def test_a_folder_that_becomes_a_module_of_the_tests_while_they_run_is_seen(places, ground):
    lurks = LURKS.replace("pytest.py", "json/__init__.py")
    for does, cause in ((lurks, "tampered"), (lurks.replace("; rm ", "; true "), "tampered"),
                        (lurks.replace("__init__.py", "state.db"), "passed")):  # fmt: skip
        task = serving(ground, first=WAITS)
        verdict = await given_away(
            places, ground, task, f"{SERVES}\nmkdir /app/json; touch /app/json/x\n({does}) </dev/null >/dev/null 2>&1 &"
        )
        told = ("/app/json/__init__.py",) if cause == "tampered" else ()
        assert (verdict.cause, verdict.tampered) == (cause, told), verdict


async def test_a_module_that_is_there_between_two_looks_is_seen(places, ground, monkeypatch):
    run = Grading._run

    async def meanwhile(grading, image, prepared):
        at = ["docker", "exec", grading.sandbox.container]
        subprocess.run([*at, "touch", "/app/json.py"], check=True)
        report = await run(grading, image, prepared)
        subprocess.run([*at, "rm", "/app/json.py"], check=True)
        return report

    monkeypatch.setattr(Grading, "_run", meanwhile)
    verdict = await given_away(places, ground, serving(ground), SERVES)
    assert (verdict.cause, verdict.tampered) == ("tampered", ("/app/json.py",)), verdict


async def test_what_programs_load_unasked_from_where_the_tests_run_is_seen_when_it_comes_there(places, ground):
    dockerfile = "FROM python:3.11-slim-bookworm\nWORKDIR /app\nENV LD_LIBRARY_PATH=/lib: BASH_ENV=/app/env.sh\n"
    test_sh = f"{WAITS}echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, dockerfile=dockerfile, tests={"test.sh": test_sh})
    for name, passed in (("libtinfo.so.6", False), ("env.sh", False), ("log", True)):
        lurks = LURKS.replace("pytest.py", name)
        verdict = await given_away(places, ground, task, f"touch it\n({lurks}) </dev/null >/dev/null 2>&1 &")
        assert (verdict.passed, verdict.tampered) == (passed, () if passed else (f"/app/{name}",)), verdict


LOOKS = """import glob
while True:
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path) as file:
                line = file.read()
        except OSError:
            continue
        for wanted in ("4711", "4712"):
            if wanted in line.split(chr(0)):
                open("/app/saw-" + wanted, "w").close()
"""
BESIDE = """
import glob, os, time
time.sleep(1)
assert any("looks.py" in open(path).read() for path in glob.glob("/proc/[0-9]*/cmdline")), "who lives here"
assert os.path.exists("/app/saw-4711") and not os.path.exists("/app/saw-4712"), os.listdir("/app")
for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger"):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        continue
    raise SystemExit("the kernel's settings are open to the tests")
"""


async def test_what_tests_put_on_command_lines_is_seen_by_nobody_who_lives_beside_them(places, ground):
    script = "python3 /tests/beside.py 4712 && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": script, "beside.py": BESIDE})
    start = "for it in 'python3 /srv/looks.py' 'sleep 4711'; do setsid $it </dev/null >/dev/null 2>&1 & done"
    verdict = await given_away(places, ground, task, start, {"/srv/looks.py": LOOKS})
    assert verdict.passed, verdict


@pytest.mark.parametrize("hook", ["/root/.profile", "/root/.bash_profile", "/etc/profile.d/a.sh", "/opt/common.sh"])
async def test_a_start_up_file_that_is_written_again_and_again_while_the_tests_run_voids_them(places, ground, hook):
    script = "sleep 0.5\nsource /opt/common.sh\nbash -lc 'grep -q 42 /app/out' && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": script})
    rewrites = f"while :; do echo 'echo 42 > /app/out' > {hook}; sleep 0.05; done"
    start = f'setsid sh -c "{rewrites}" </dev/null >/dev/null 2>&1 & until [ -s {hook} ]; do sleep 0.05; done'
    verdict = await given_away(places, ground, task, start)
    assert verdict.passed is False and verdict.cause in ("tampered", "submission_refused"), verdict


async def test_what_was_handed_in_and_differs_from_the_image_may_change_no_more_while_the_tests_run(places, ground):
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": "tool; sleep 1; echo 1 > /logs/verifier/reward.txt\n"})
    adds = "useradd -m me; printf '#!/bin/sh\\n' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool; ldconfig; "
    writes = "while :; do chmod 644 /etc/ld.so.cache /etc/passwd; chmod 755 /usr/local/bin/tool; sleep 0.1; done"
    does = f'{adds}setsid sh -c "{writes}" </dev/null >/dev/null 2>&1 &'
    verdict = await given_away(places, ground, task, does)
    assert verdict.tampered == ("/etc/ld.so.cache", "/etc/passwd", "/usr/local/bin/tool"), verdict


async def test_code_of_the_image_that_is_changed_while_the_tests_run_voids_them_whatever_it_is_for(places, ground):
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": WAITS + "echo 1 > /logs/verifier/reward.txt\n"})
    verdict = await given_away(places, ground, task, f"({CHANGES}) </dev/null >/dev/null 2>&1 &")
    assert verdict.tampered and all("/IO/" in path for path in verdict.tampered), verdict


FOR_A_MOMENT = (
    "mkdir -p $(dirname FILE); touch FILE.new; rm FILE.new; [ ! -e FILE ] || cp -p FILE /app/kept; "
    "(until [ -e /app/begun ]; do sleep 0.02; done; echo '# forged' >> FILE; sleep 0.1; "
    "[ -e /app/kept ] && cat /app/kept > FILE || rm FILE; touch /app/ended) </dev/null >/dev/null 2>&1 &"
)
"""A file is changed, or comes, and is as it was. (Folders that overlayfs has to copy first would be seen.)"""


@pytest.mark.parametrize(("image", "path", "seen"), [
    ("python:3.11-slim-bookworm", "/etc/ssl/openssl.cnf", True),
    ("python:3.11-slim-bookworm", "/usr/share/perl5/strict.pm", True),
    ("python:3.11-slim-bookworm", "/usr/lib/x86_64-linux-gnu/bfd-plugins/forge.so", True),
    ("python:3.11-slim-bookworm", "/usr/share/mine/state", False),
    ("gcc:12-bookworm", "/usr/local/include/assert.h", True),
])  # fmt: skip
async def test_what_programs_read_or_load_by_themselves_may_not_change_for_a_moment(places, ground, image, path, seen):
    test_sh = f"{WAITS}perl -e 1; echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, dockerfile=f"FROM {image}\nWORKDIR /app\n", tests={"test.sh": test_sh})
    verdict = await given_away(places, ground, task, FOR_A_MOMENT.replace("FILE", path))
    assert verdict.cause == ("tampered" if seen else "passed"), verdict
    assert all(path.startswith(one) for one in verdict.tampered)


EXCHANGES = (
    "cp -a PARTS PARTS.new; rm -r PARTS; mv PARTS.new PARTS; mkdir /app/parts; echo 1 > /app/parts/says; ("
    "until [ -e /app/begun ]; do sleep 0.02; done; mv PARTS PARTS.old; mv /app/parts PARTS; touch /app/ended; "
    "until [ -e /app/read ]; do sleep 0.02; done; mv PARTS /app/parts; mv PARTS.old PARTS; touch /app/over) "
    "</dev/null >/dev/null 2>&1 &"
)
JUDGE = "/opt/judge/bin/judge"


@pytest.mark.parametrize("parts", ["/usr/lib/judge/parts", "/opt/judge/lib/parts"])
async def test_a_folder_of_code_that_another_stands_in_for_while_the_tests_read_it_voids_them(places, ground, parts):
    image = (
        f"FROM python:3.11-slim-bookworm\nRUN mkdir -p {parts} /opt/judge/bin && echo 0 > {parts}/says"
        f" && printf '#!/bin/sh\\ncat {parts}/says' > {JUDGE} && chmod 755 {JUDGE}\nWORKDIR /app\n"
    )
    reads = f"{JUDGE} > /logs/verifier/reward.txt; touch /app/read; until [ -e /app/over ]; do sleep 0.02; done"
    task = sealed_task(ground, toml=SHARED, dockerfile=image, tests={"test.sh": f"{WAITS}{reads}\n"})
    verdict = await given_away(places, ground, task, EXCHANGES.replace("PARTS", parts))
    assert verdict.cause == "tampered" and parts.startswith(verdict.tampered), verdict


UNPACKED = """FROM python:3.11-slim-bookworm
RUN mkdir -p AT/bin AT/lib && cp /bin/dash AT/bin/tool && echo 'echo 0' > AT/lib/work
WORKDIR /app
"""


@pytest.mark.parametrize(("at", "does"), [
    ("/opt/tool", "cp -p {0} /app/as; echo 'echo 1' > {0}; touch -r /app/as {0}"),
    ("/srv/kit/1.2", "exec 3<>{0}; (until [ -e /app/begun ]; do sleep 0.1; done; echo 'echo 1' >&3; touch /app/ended)"
     " >/dev/null 2>&1 &"),
], ids=["as large and as old as before", "while the tests run"])  # fmt: skip
async def test_what_an_unpacked_program_stands_on_is_what_the_image_has(places, ground, at, does):
    work, waits = f"{at}/lib/work", WAITS if "begun" in does else ""
    tests = {"test.sh": f"{waits}{at}/bin/tool {work} > /logs/verifier/reward.txt\n"}
    task = sealed_task(ground, toml=SHARED, dockerfile=UNPACKED.replace("AT", at), tests=tests)
    verdict = await given_away(places, ground, task, does.format(work))
    assert verdict.tampered == (work,), verdict


async def test_what_was_touched_and_is_as_before_is_compared_at_once_and_voids_nothing(places, ground):
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": "echo 1 > /logs/verifier/reward.txt\n"})
    verdict = await given_away(places, ground, task, "find /usr -xdev -type f -exec chmod u+r {} +")
    assert verdict.passed and verdict.seconds < 60, verdict


ANSWERS = """
import os, socket, struct
os.makedirs("/var/run/nscd", exist_ok=True)
wire = socket.socket(socket.AF_UNIX)
wire.bind("/var/run/nscd/socket")
os.chmod("/var/run/nscd/socket", 0o666)
wire.listen()
open("/app/lives", "w").close()
while True:
    asked, _ = wire.accept()
    if struct.unpack("3i", asked.recv(12))[1] > 1:
        asked.close()  # not who somebody is, by name or number
        continue
    texts = [text + bytes(1) for text in (b"nobody", b"x", b"", b"/", b"/bin/sh")]
    name, password, *rest = map(len, texts)
    asked.sendall(struct.pack("9i", 2, 1, name, password, 0, 0, *rest) + b"".join(texts))
    asked.close()
"""
"""Says, in the C library's protocol, that everybody is root."""
ASKS_WHO = '[ "$(runuser -u nobody -- id -u)" = 0 ]'
PRETENDS = "setsid python3 /srv/answers.py </dev/null >/dev/null 2>&1 & until [ -e /app/lives ]; do sleep 0.1; done"
ASKS_FILES = "diff <(echo right) <(echo wrong)"


@pytest.mark.parametrize(
    ("asked", "does"),
    [
        (ASKS_WHO, PRETENDS),
        (ASKS_FILES, "rm /dev/fd; mkdir /dev/fd; for it in $(seq 3 99); do echo same > /dev/fd/$it; done"),
        ("[ -s /dev/urandom ]", "rm /dev/urandom; echo known > /dev/urandom"),
    ],
    ids=["users", "open files", "devices"],
)
async def test_neither_users_nor_devices_are_what_a_candidate_makes_of_them(places, ground, asked, does):
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": f"{asked} && echo 1 > /logs/verifier/reward.txt\n"})
    verdict = await given_away(places, ground, task, does, {"/srv/answers.py": ANSWERS})
    assert verdict.passed is False and verdict.cause in ("no_verdict", "tampered"), verdict


IMPORTS_LATE = """import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        import json
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([1]).encode())
server = http.server.HTTPServer(("127.0.0.1", 8123), Answer)
open("/app/lives", "w").close()
server.serve_forever()
"""
ASKS_LATE = """from urllib.request import urlopen


def test_the_service_answers():
    assert urlopen("http://127.0.0.1:8123", timeout=5).read() == b"[1]"
"""


async def test_a_service_that_imports_a_module_for_the_first_time_while_the_tests_run_changes_none(places, ground):
    script = "python3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": script, "test_outputs.py": ASKS_LATE})
    starts = (
        'rm -rf "$(python3 -c "import json; print(json.__path__[0])")/__pycache__"; unset PYTHONDONTWRITEBYTECODE; '
        "setsid python3 /srv/late.py </dev/null >/dev/null 2>&1 & until [ -e /app/lives ]; do sleep 0.1; done"
    )
    verdict = await given_away(places, ground, task, starts, {"/srv/late.py": IMPORTS_LATE})
    assert verdict.passed is True, verdict


JUDGES = """FROM python:3.11-slim-bookworm
RUN echo 'print(0)' > "$(python3 -c 'import site; print(site.getsitepackages()[0])')/judge.py"
WORKDIR /app
"""
FORGES = """import importlib.util, judge, marshal, os, time
kept = importlib.util.cache_from_source(judge.__file__)
while not os.path.exists("/app/begun"):
    time.sleep(0.02)
with open(kept, "wb") as file:  # as byte code that is never compared with its source
    code = marshal.dumps(compile("print(1)", "judge", "exec"))
    file.write(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)
open("/app/ended", "w").close()
"""


async def test_no_python_of_the_tests_reads_byte_code_that_somebody_else_leaves_beside_modules(places, ground):
    asks = "for python in python3 'python3 -I' 'env -i python3'; do $python -c 'import judge'; done"
    script = f"{WAITS}{asks} | uniq > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, dockerfile=JUDGES, tests={"test.sh": script})
    does = "setsid python3 /srv/forges.py </dev/null >/dev/null 2>&1 &"
    verdict = await given_away(places, ground, task, does, {"/srv/forges.py": FORGES})
    assert (verdict.passed, verdict.cause) == (False, "failed"), verdict


async def test_a_sandbox_that_its_candidate_ended_is_a_fail(places, ground):
    task = serving(ground)
    sandbox = await places[0].create(task, "short")
    ticket = await sandbox.hand_over()
    subprocess.run(["docker", "kill", sandbox.container], capture_output=True, check=True)
    verdict = await graded_alive(places, ground, task, ticket)
    assert (verdict.passed, verdict.cause) == (False, "submission_refused"), verdict


async def test_of_a_sandbox_that_was_ended_before_it_was_given_away_the_files_are_handed_in_all_the_same(
    places, ground
):
    script = "[ $(cat /app/out) = 42 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    task, files = sealed_task(ground, toml=SHARED, tests={"test.sh": script}), {"/app/out": "what a state is told by"}
    forks = SandboxForks(places[0], task, "ended")
    try:
        sandbox = await forks.open("lineage")
        await sandbox.put({"/app/out": b"42\n"})
        forks.remember(files, (await sandbox.difference()).tar)
        forks.lives_in(files, sandbox)
        sandbox.kill("as the watchdog does")
        difference, ticket = await forks.hand_in("submission", files)
    finally:
        await forks.close()
    verdict = await graded_alive(places, ground, task, ticket, difference.tar)
    assert verdict.passed is True, verdict


async def test_a_verifier_with_an_image_of_its_own_gets_the_declared_artefacts_and_nothing_else(places, ground):
    toml = (
        'artifacts = ["out", {source = "/srv/given", exclude = ["*.log"]}]\n[verifier]\nenvironment_mode = "separate"\n'
    )
    looks = (
        '[ "$(cat /only-here)" = mine ] && [ "$(cat /app/out/answer)" = 42 ] && [ "$(cat /srv/given/data)" = image ]'
        " && [ ! -e /app/other ] && [ ! -e /srv/given/x.log ] && [ ! -e /tests/Dockerfile ]\n"
        "[ $? = 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    )
    own = "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY mine.txt /only-here\n"
    task = sealed_task(
        ground,
        toml=toml,
        dockerfile="FROM debian:bookworm-slim\nWORKDIR /app\nCOPY data /srv/given/data\n",
        environment={"data": "image\n"},
        tests={"test.sh": looks, "Dockerfile": own, "mine.txt": "mine\n"},
        solution={"solve.sh": "mkdir out; echo 42 > out/answer; echo x > other; echo x > /srv/given/x.log\n"},
    )
    own_place = DockerPlace(vault.own_image_folder(ground / "sealed", task.digest), owner=f"{current_owner()}-own")
    roots = {"sealed_root": ground / "sealed", "place": places[1], "own_place": own_place}
    try:
        control = await oracle.control(task, **roots)  # type: ignore[arg-type]
        assert (control.passed, control.mode, control.witness) == (True, "separate", "none"), control
        nothing = await grade_fresh(task, None, **roots)  # type: ignore[arg-type]
        assert (nothing.passed, nothing.cause) == (False, "failed"), nothing
    finally:
        await own_place.close()


async def test_output_without_end_neither_fills_the_verifier_nor_changes_the_verdict(places, ground):
    script = "(yes 'output without end' &)\nhead -c 300000000 /dev/zero\necho 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, toml=SHARED, tests={"test.sh": script}, solution={"solve.sh": "true\n"})
    kept = ground / "kept.txt"
    roots = {"sealed_root": ground / "sealed", "place": places[1], "keep_output": kept}
    shared = await grade_shared(task, None, spared=None, careful=False, **roots)  # type: ignore[arg-type]
    isolated = await grade(task, None, **roots)  # type: ignore[arg-type]
    assert [(one.passed, one.cause) for one in (shared, isolated)] == [(True, "passed")] * 2
    assert kept.stat().st_size <= 1 << 16 and kept.stat().st_mode & 0o777 == 0o600


def test_a_sweep_grades_what_its_trials_gave_away_and_a_threshold_lets_a_part_pass(ground):
    half = (
        "cd /app; ls; python3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py\n"
        "[ -e add.py ] && echo 0.5 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    )
    parts = "import os\ndef test_there(): assert os.path.exists('/app/add.py')\ndef test_more(): assert 0\n"
    instruction = "Write the file `add.py` with a function `add(a, b)` that returns the sum of its two numbers.\n"
    solution, tests = {"solve.sh": f"{SOLVE_SH}echo solved\n"}, {"test.sh": half, "test_outputs.py": parts}
    make_task(ground / "set", instruction=instruction, tests=tests, solution=solution)
    passed = {}
    for threshold in (1.0, 0.5):
        heard, out = Watcher(), ground / f"out{threshold}"
        plan, _ = swept(
            out, ground / "set", heard, agents=("oracle", "nop", "raw"), sandbox="docker", grading="shared",
            engine={"kind": "scripted", "script": "tests.fakes.answers:wavers"}, pass_threshold=threshold,
            retries={"attempts": 1},
        )  # fmt: skip
        verdicts = {event.trial: event.passed for event in heard.of("verdict")}
        passed[threshold] = {key.agent: verdicts.get(key.name) for key in plan.trials}
        assert {one["agent_result"]["metadata"]["grading"] for one in results(out).values()} <= {"shared", None}
        name = {key.agent: key.name for key in plan.trials}
        assert results(out)[name["oracle"]]["agent_result"]["metadata"]["solution"] == "exit status 0"
        kept = {agent: unseal(str(out), name[agent]) for agent in ("oracle", "nop")}
        listed = {agent: one["output"].splitlines() for agent, one in kept.items()}
        assert (kept["oracle"]["solution"], kept["nop"]["solution"]) == ("solved\n", "")
        assert "add.py" in listed["oracle"] and "add.py" not in listed["nop"], listed
    # A reference that does not reach the threshold proves nothing, and no model's trial is scored by it.
    assert passed[1.0] == {"oracle": False, "nop": False, "raw": None}
    assert passed[0.5] == {"oracle": True, "nop": False, "raw": True}


@pytest.mark.parametrize("grading", ["isolated", "shared"])
async def test_the_pytest_that_is_lent_hides_none_of_another_python_or_environment(places, ground, grading):
    script = (
        "cd /app\npython3 -m pytest -q -p no:cacheprovider /tests/test_outputs.py || exit\n"
        "for python in /opt/own/bin/python /opt/sees-all/bin/python; do\n"
        "  $python -c 'import pytest; assert pytest.__doc__ == \"its own\"' || exit\ndone\n"
        "env -u PYTHONPATH python3 -c 'import pytest' && echo 1 > /logs/verifier/reward.txt\n"
    )
    make = "RUN for name in own sees-all; do python3 -m venv --without-pip /opt/$name; done; \\\n"
    make += " sed -i s/false/true/ /opt/sees-all/pyvenv.cfg; \\\n"
    make += " for name in own sees-all; do cp /pytest.py /opt/$name/lib/python3.*/site-packages/; done; rm /pytest.py\n"
    task = sealed_task(
        ground,
        toml=f'[verifier]\nenvironment_mode = "{grading}"\n' if grading == "shared" else "",
        dockerfile=f"FROM python:3.11-slim-bookworm\nCOPY pytest.py /pytest.py\n{make}WORKDIR /app\n",
        environment={"pytest.py": '"""its own"""\n'},
        tests={"test.sh": script, "test_outputs.py": "def test_nothing(): pass\n"},
        solution={"solve.sh": "touch /app/done\n"},
    )
    control = await oracle.control(task, sealed_root=ground / "sealed", place=places[1])
    assert (control.passed, control.witness, control.mode) == (True, "agrees", grading), control


@pytest.mark.parametrize(
    ("grading", "starts", "witness"),
    [("isolated", "", "agrees"), ("shared", "", "agrees"), ("isolated", "env -i PATH=$PATH ", "none")],
)
def test_tests_of_a_repository_that_were_broken_before_the_task_fail_nobody(ground, grading, starts, witness):
    counts = (
        f"cd /app; {starts}python3 -m pytest -rA -p no:cacheprovider /tests/test_outputs.py > /tmp/log\n"
        "grep -q 'PASSED .*test_adds' /tmp/log; echo $((! $?)) > /logs/verifier/reward.txt\n"
    )
    module = (
        "def test_adds():\n    from add import add\n    assert add(2, 3) == 5\ndef test_was_broken_before(): assert 0\n"
    )
    tests = {"test.sh": counts, "test_outputs.py": module}
    instruction = "Write the file `add.py` with a function `add(a, b)` that returns the sum of its two numbers.\n"
    make_task(ground / "set", instruction=instruction, tests=tests, solution={"solve.sh": SOLVE_SH})
    heard, out = Watcher(), ground / "out"
    plan, _ = swept(
        out, ground / "set", heard, agents=("oracle", "nop", "raw"), sandbox="docker", grading=grading,
        engine={"kind": "scripted", "script": "tests.fakes.answers:wavers"}, retries={"attempts": 1},
    )  # fmt: skip
    verdicts = {event.trial: event.passed for event in heard.of("verdict")}
    name = {key.agent: key.name for key in plan.trials}
    assert {agent: verdicts.get(trial) for agent, trial in name.items()} == {"oracle": True, "nop": False, "raw": True}
    shown = unseal(str(out), name["raw"])
    assert (shown["verdict"]["cause"], shown["verdict"]["failing"]) == ("passed", [])
    assert shown["verdict"]["witness"] == witness
    if grading == "isolated":
        again = {row["trial"]: row["after"] for row in regrade(str(out))}
        assert again == {name["oracle"]: True, name["nop"]: False, name["raw"]: True}
