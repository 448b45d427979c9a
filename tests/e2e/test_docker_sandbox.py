import asyncio
import time
import uuid

import pytest

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.filetree import Member, pack, unpack
from hc_ray.domain.runner_paths import RUNNER_PYTHON, machinery_command
from hc_ray.machine import owner as owners
from hc_ray.machine.owner import current_owner
from hc_ray.sandboxes.docker import difference as reading
from hc_ray.sandboxes.docker.availability import built_tag
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.container import DockerSandbox
from hc_ray.sandboxes.docker.place import Ground
from hc_ray.sandboxes.docker.reaper import reap
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from hc_ray.sandboxes.docker.values import Absent, DaemonRefusal
from tests.fakes.contract_task import shell
from tests.fakes.docker_tasks import task_with_environment
from tests.fakes.processes import wait
from tests.fakes.sandbox_home import closing

pytestmark = pytest.mark.docker
_BASES = ("debian:bookworm-slim", "python:3.11-slim-bookworm")


@pytest.fixture
async def place(tmp_path, monkeypatch):
    monkeypatch.setattr("hc_ray.sandboxes.docker.sandbox.WATCH_SECONDS", 0.3)
    async with closing("docker", tmp_path) as made:
        yield made


@pytest.fixture
def daemon():
    made = Daemon()
    yield made
    made.close()


@pytest.fixture
async def sandbox(place, tmp_path):
    return await place.create(task_with_environment(tmp_path), "a")


async def test_a_prebuilt_image_gets_the_environment_files_into_its_workdir(place, tmp_path):
    files = {"one.txt": b"1", "dir/two.txt": b"2"}
    task = task_with_environment(tmp_path, files, dockerfile=None, docker_image="debian:bookworm-slim")
    sandbox = await place.create(task, "a")
    assert await shell(sandbox, "cd /app; cat one.txt dir/two.txt") == "12"
    assert (await sandbox.difference()).changed == ()


async def test_where_the_task_names_no_workdir_it_is_that_of_the_image_it_stands_on(place, tmp_path, daemon):
    base = task_with_environment(tmp_path, dockerfile="FROM debian:bookworm-slim\nWORKDIR /srv/work\n")
    await place.prepare(base)
    silent = task_with_environment(tmp_path, dockerfile=f"FROM {built_tag(base)}\nCOPY data.txt .\n")
    named = silent.model_copy(update={"environment": silent.environment.model_copy(update={"workdir": "/app"})})
    assert await shell(await place.create(silent, "a"), "pwd; cat data.txt") == "/srv/work\ngiven\n"
    assert await shell(await place.create(named, "b"), "pwd") == "/app\n"


async def test_an_image_is_built_again_where_one_of_its_bases_has_changed_and_not_where_it_is_gone(
    place, tmp_path, daemon
):
    base, (old, new) = f"hc-ray-test/base:{uuid.uuid4().hex}", [daemon.image(name) for name in _BASES]
    task = task_with_environment(tmp_path, dockerfile=f"FROM {base} AS a\nFROM {_BASES[0]}\nCOPY --from=a /etc /b\n")
    built = []
    for image in (old, old, new, None):
        daemon.remove_image(base) if image is None else daemon.name_image(image.id, base)
        async with closing("docker", tmp_path) as other:
            before = daemon.image(built_tag(task))
            await other.create(task, "a")
            assert before is None or daemon.image(built_tag(task)) == before, "what lies there is good to work beside"
        async with closing("docker", tmp_path) as chooser:
            await chooser.prepare(task)
            built.append(daemon.image(built_tag(task)).id)
            assert (await chooser.images.held(task)).id == built[-1]
    assert built[0] == built[1] != built[2] == built[3]


async def test_those_of_one_place_or_of_two_that_need_a_tasks_image_at_once_build_it_once(
    place, tmp_path, daemon, monkeypatch
):
    task = task_with_environment(tmp_path, {"data.txt": uuid.uuid4().bytes})
    build, built = Daemon.build, []

    def counted(self, folder, *told, **how):
        built.append(folder)
        return build(self, folder, *told, **how)

    monkeypatch.setattr(Daemon, "build", counted)
    async with closing("docker", tmp_path) as other:
        await asyncio.gather(*((place, other)[number % 2].create(task, str(number)) for number in range(4)))
    assert len(built) == len(daemon.images(f"hc-ray.task={task.digest}")) == 1
    daemon.remove_image(f"hc-ray/task:{task.digest[:16]}")


async def test_what_replaces_a_file_right_after_the_image_was_built_is_a_difference(place, tmp_path, daemon):
    for _ in range(4):
        text = f"FROM debian:bookworm-slim\nRUN echo one > /srv/file; echo {uuid.uuid4()} > /srv/other\n"
        task = task_with_environment(tmp_path, {}, dockerfile=text)
        sandbox = await place.create(task, "soon")
        await shell(sandbox, "echo two > /srv/new && mv /srv/new /srv/file")
        assert "/srv/file" in (await sandbox.difference()).changed
        await sandbox.close()
        daemon.remove_image(f"hc-ray/task:{task.digest[:16]}")


async def test_a_build_that_fails_says_its_last_lines_and_an_image_that_nobody_has_a_remedy(place, tmp_path):
    task = task_with_environment(tmp_path, {}, dockerfile="FROM debian:bookworm-slim\nRUN echo before; false\n")
    with pytest.raises(SandboxError, match=r"(?s)returned a non-zero code.*before"):
        await place.create(task, "a")
    task = task_with_environment(tmp_path, {}, dockerfile=None, docker_image="localhost:1/nothing/here:1")
    with pytest.raises(SandboxError, match="docker load"):
        await place.create(task, "a")


async def test_a_build_past_its_deadline_is_given_up(place, tmp_path):
    text = f"FROM debian:bookworm-slim\nRUN echo {uuid.uuid4()}; sleep 30\n"
    task = task_with_environment(tmp_path, {}, dockerfile=text, build_timeout_sec=1.0)
    started = time.monotonic()
    with pytest.raises(SandboxError, match="longer than 1 s"):
        await place.create(task, "a")
    assert time.monotonic() - started < 10


async def test_a_container_has_its_limits_and_no_network(place, tmp_path):
    sandbox = await place.create(task_with_environment(tmp_path, memory_mb=64, cpus=0.5), "a")
    script = "hostname; grep -c : /proc/net/dev; ulimit -c; nice; grep -E 'NoNewPrivs|CapEff' /proc/self/status"
    name, interfaces, core, nice, capabilities, privileges = (await shell(sandbox, script)).splitlines()
    assert (name, interfaces, core, nice, privileges.split()[1]) == ("hc", "1", "0", "5", "1")
    assert int(capabilities.split()[1], 16) & (1 << 13 | 1 << 27) == 0  # raw sockets, devices
    hog = await sandbox.exec([*RUNNER_PYTHON, "-c", "b = bytearray(200 << 20)"], timeout=20)
    assert hog.exit_code not in (0, None) and (await sandbox.exec(["true"], timeout=20)).exit_code == 0
    assert place.limits()["memory"] == "cgroup"


async def test_a_service_outlives_the_command_that_started_it_and_may_still_write(sandbox):
    started = time.monotonic()
    await shell(sandbox, "(sleep 0.5; echo noise; echo noise; echo alive > /app/sign) & echo started")
    assert time.monotonic() - started < 5 and (await sandbox.exec(["sleep", "0.1"], timeout=5)).exit_code == 0
    await asyncio.sleep(1.0)
    assert await sandbox.get("sign") == b"alive\n"


async def test_the_deadline_of_one_command_spares_another(sandbox):
    slow = sandbox.exec(["sh", "-c", "sleep 1; echo done"], timeout=20)
    short = sandbox.exec(["sh", "-c", "sleep 33 & sleep 34"], timeout=0.3)
    lived, died = await asyncio.gather(slow, short)
    assert died.timed_out and lived.stdout == b"done\n"


async def test_the_difference_of_forks_is_taken_against_the_tasks_image(place, tmp_path):
    root = await place.create(task_with_environment(tmp_path), "root")
    await shell(root, "echo 1 > a; mkdir d; echo 2 > d/b; echo t > /tmp/t; echo h > $HOME/h; rm -r /etc/apt")
    child = await root.fork("child")
    assert await shell(child, "cat /tmp/t $HOME/h") == "t\nh\n"
    await shell(child, "rm a; echo 3 > d/c; mkdir /etc/apt; echo n > /etc/apt/new; cp data.txt x; mv x data.txt")
    await root.close()
    grandchild = await child.fork("grandchild")
    await child.close()
    await shell(grandchild, "rm d/b; chmod 700 /srv; touch /etc/hostname /etc/shadow")
    difference = await grandchild.difference()
    # The copied data.txt equals the image's: it is no change. Neither is a folder that only holds one.
    assert difference.changed == ("/app/d", "/app/d/c", "/etc/apt/new", "/root/h", "/srv")
    assert "/etc/apt/sources.list.d" in difference.deleted
    assert not [path for path in difference.deleted if not path.startswith("/etc/apt/")]
    fresh = await place.create(task_with_environment(tmp_path), "fresh")
    await fresh.put_tar(difference.tar)
    assert await fresh.difference() == difference


async def test_a_folder_of_many_changes_is_read_once_and_one_that_holds_too_much_gives_the_same(
    place, tmp_path, monkeypatch
):
    text, files = "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY . ./\n", {"data.txt": b"1", "sub/file": b"2"}
    sandbox = await place.create(task_with_environment(tmp_path, files, dockerfile=text), "a")
    made = ("for i in $(seq 30); do echo $i > f$i; done; mkdir d; touch d/a; ln -s f1 l; ln -s o o; mkfifo p; "
            "ln sub/file x; chmod 600 f7; touch data.txt")  # fmt: skip
    await shell(sandbox, made)
    archive, read = Daemon.archive, []
    monkeypatch.setattr(Daemon, "archive", lambda daemon, *what: read.append(what) or archive(daemon, *what))
    found = await sandbox.difference()
    assert len(read) < 10 and "/etc" not in {path for _, path in read}, "Docker's own mounts touched it, and no more"
    monkeypatch.setattr(reading, "AHEAD", 0)
    assert await sandbox.difference() == found and len(read) > 30
    names = {"d", "d/a", "l", "o", "x", *(f"f{number}" for number in range(1, 31))}
    assert set(found.changed) == {f"/app/{name}" for name in names} and found.deleted == ()
    members = {member.path: member for member in unpack(found.tar).members}
    assert members["/app/f7"].data == b"7\n" and members["/app/f7"].mode == 0o600 and members["/app/x"].data == b"2"


async def test_a_folder_that_docker_mounts_into_is_changed_where_its_mode_is_or_anything_else_in_it(sandbox):
    await shell(sandbox, "touch /etc/mine")
    assert (await sandbox.difference()).changed == ("/etc/mine",)
    await shell(sandbox, "rm /etc/mine; chmod 700 /etc")
    assert (await sandbox.difference()).changed == ("/etc",)


async def test_untouched_forks_need_no_image_and_what_runs_nothing_does_not_start(place, tmp_path, daemon):
    task = task_with_environment(tmp_path, {"data.txt": b"1"})
    root = await place.create(task, "root")
    child = await root.fork("child")
    mine = f"hc-ray.owner={current_owner()}"  # other tests beside this one have owners of their own
    before = len(daemon.images(mine))
    await child.put(
        {"data.txt": b"other", "new/deep": b"3", "/etc/made.d/x": b"4", "/opt/tool/y": b"5", "/bin/z": b"6"}
    )
    found = await child.difference()
    told = {"/app/data.txt", "/app/new", "/app/new/deep", "/etc/made.d", "/etc/made.d/x", "/opt/tool", "/opt/tool/y"}
    assert told < set(found.changed) and {path[-2:] for path in set(found.changed) - told} == {"/z"}
    assert not _runs(daemon, root.container) and not _runs(daemon, child.container)
    assert (await child.exec(["true"], timeout=20)).exit_code == 0
    assert await child.difference() == found, "the daemon says the same once something ran"
    grandchild = await child.fork("grandchild")
    assert await grandchild.difference() == found
    assert await grandchild.get("data.txt") == b"other" and await root.get("data.txt") == b"1"
    assert len(daemon.images(mine)) == before + 1, "that of the grandchild"


async def test_what_was_put_in_the_way_of_a_start_is_no_fault_of_the_machine(sandbox, place, tmp_path):
    try:
        await sandbox.put_tar(pack([Member("/proc", "file", data=b"no folder")]).tar)
    except ValueError:
        return
    result = await sandbox.exec(["true"], timeout=20)
    assert result.exit_code is None and b"must be mounted" in result.stderr
    assert (await (await place.create(task_with_environment(tmp_path), "b")).exec(["true"], timeout=20)).exit_code == 0


async def test_a_container_that_ended_under_a_difference_is_no_fault_of_the_difference(sandbox, daemon):
    await sandbox.exec(["true"], timeout=20)
    daemon.kill(sandbox.container)
    with pytest.raises(SandboxError) as caught:
        await sandbox.put_tar(pack([], ["/app/data.txt"]).tar)
    assert not isinstance(caught.value, ValueError)


async def test_what_somebody_else_has_removed_is_no_fault_of_who_used_it(place, tmp_path, daemon):
    """As `docker container prune` does with those that never ran."""
    boxes = [await place.create(task_with_environment(tmp_path, {"data.txt": b"1"}), "a") for _ in range(2)]
    for box in boxes:
        await box.put({"data.txt": b"2"})
    await boxes[1].exec(["true"], timeout=20)
    child = await boxes[1].fork("child")
    for box in boxes:
        daemon.remove(box.container)
    await boxes[1].close()
    for ask in (boxes[0].difference, boxes[0].get, boxes[0].fork, child.difference):
        with pytest.raises(SandboxError) as caught:
            await (ask() if ask.__name__ == "difference" else ask("data.txt"))
        assert not isinstance(caught.value, ValueError)


async def test_a_difference_is_whole_also_after_somebody_removed_the_container_that_shows_the_image(
    place, tmp_path, daemon
):
    box = await place.create(task_with_environment(tmp_path, {"data.txt": b"1"}), "box")
    await shell(box, "echo 2 > data.txt")
    await box.difference()
    await shell(box, "rm /etc/debian_version; chmod 600 /etc/issue")
    own = daemon.inspected(box.container)["Config"]["Labels"]["hc-ray.place"]
    [image] = [one for one, told in daemon.containers(f"hc-ray.place={own}") if told["hc-ray.name"] == "baseline"]
    daemon.remove(image)
    found = await box.difference()
    assert (found.changed, found.deleted) == (("/app/data.txt", "/etc/issue"), ("/etc/debian_version",))


async def test_nothing_runs_unfenced_and_a_failed_fence_is_no_candidates_fault(place, tmp_path, daemon, monkeypatch):
    sandbox = await place.create(task_with_environment(tmp_path), "a", network=True)
    await sandbox.put({"data.txt": b"of a candidate"})
    fences = iter([DaemonRefusal("no chain"), None])

    def fence(*_, **__):
        if fault := next(fences):
            raise fault

    monkeypatch.setattr(DockerSandbox, "fence", fence)
    with pytest.raises(SandboxError, match="no chain"):
        await sandbox.exec(["true"], timeout=20)
    assert not _runs(daemon, sandbox.container)
    assert (await sandbox.exec(["true"], timeout=20)).exit_code == 0 and next(fences, "asked") == "asked"


async def test_a_sandbox_that_cannot_be_fenced_keeps_no_other_from_its_fence(place, tmp_path, monkeypatch):
    boxes = [await place.create(task_with_environment(tmp_path), str(number), network=True) for number in range(3)]
    fenced = []

    def fence(box):
        fenced.append(box)
        if box is boxes[0]:
            raise DaemonRefusal("it runs no more")

    monkeypatch.setattr(DockerSandbox, "fence", fence)
    with pytest.raises(SandboxError, match="it runs no more"):
        await place.keep_from(["192.0.2.1"])
    assert fenced == boxes


async def test_a_put_that_failed_leaves_a_difference_that_can_be_read(sandbox):
    await sandbox.put({"kept": b"1"})
    for path, says in (("n" * 300, "cannot be written"), ("../../etc/x", "leaves the root")):
        with pytest.raises(ValueError, match=says):
            await sandbox.put({path: b"2"})
    assert (await sandbox.difference()).changed == ("/app/kept",)


async def test_forks_are_flattened_before_the_layers_run_out_and_keep_files_and_variables(tmp_path, monkeypatch):
    monkeypatch.setattr("hc_ray.sandboxes.docker.container.MAX_LAYERS", 3)
    script = "import os, sys; open('f' + sys.argv[1], 'w').write(os.environ['G']); print(sorted(os.listdir()))"
    text = "FROM scratch\nWORKDIR /w\nENV G=x\nCOPY data.txt .\n"
    async with closing("docker", tmp_path) as place:
        sandbox = await place.create(task_with_environment(tmp_path, dockerfile=text), "0")
        for number in range(4):
            result = await sandbox.exec([*RUNNER_PYTHON, "-c", script, str(number)], timeout=20)
            child = await sandbox.fork(str(number + 1))
            await sandbox.close()
            sandbox = child
        assert result.stdout == b"['data.txt', 'f0', 'f1', 'f2', 'f3']\n" and await sandbox.get("f0") == b"x"
        assert (await sandbox.difference()).changed == ("/w/f0", "/w/f1", "/w/f2", "/w/f3")


async def test_nothing_is_left_after_close(tmp_path, daemon):
    owner = f"{current_owner()}-{uuid.uuid4().hex[:6]}"
    place = DockerPlace(tmp_path, owner=owner)
    sandbox = await place.create(task_with_environment(tmp_path), "a")
    fork = await (await sandbox.fork("b")).fork("c")
    await fork.difference()
    await place.close()
    await place.close()
    label = f"hc-ray.owner={owner}"
    assert (daemon.containers(label), daemon.images(label)) == ([], [])


async def test_a_sandbox_whose_maker_was_cancelled_is_removed(place, tmp_path, daemon, monkeypatch):
    begins = DockerSandbox.begin

    def begins_slowly(sandbox, image):
        begins(sandbox, image)
        time.sleep(0.3)

    monkeypatch.setattr(DockerSandbox, "begin", begins_slowly)
    task = task_with_environment(tmp_path)
    await (await place.create(task, "warm")).close()
    name = f"cancelled-{uuid.uuid4().hex[:8]}"
    making = asyncio.create_task(place.create(task, name))
    while not daemon.containers(f"hc-ray.name={name}"):
        await asyncio.sleep(0.005)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    await asyncio.to_thread(wait, lambda: not daemon.containers(f"hc-ray.name={name}"), 10, "its end")


async def test_what_a_dead_owner_left_is_reaped_and_nothing_else(place, tmp_path, daemon, monkeypatch):
    # On machines of its own: a sweep that starts beside this test reaps too.
    dead = f"999999999-1-{uuid.uuid4().hex[:6]}"
    task = task_with_environment(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr(owners, "_boot", lambda: str(uuid.uuid4()))
        before = f"{current_owner()}-before"
        await DockerPlace(tmp_path, owner=before).create(task, "before")
    monkeypatch.setattr(owners, "_namespace", lambda: 1)
    theirs = DockerPlace(tmp_path, owner=f"{dead}-theirs")
    kept = await theirs.create(task, "theirs")
    monkeypatch.setattr(owners, "_namespace", lambda: 2)
    left = DockerPlace(tmp_path, owner=dead)
    first = await left.create(task, "left")
    await first.put({"written": b"1"})
    await (await first.fork("left-1")).fork("left-2")
    await first.exec(["sh", "-c", "sleep 100 &"], timeout=20)
    assert await asyncio.to_thread(daemon.pause, first.container), "as one whose owner died while it read its files"
    mine = await place.create(task, "mine")
    removed = await asyncio.to_thread(reap)
    assert len([line for line in removed if "left" in line]) == 3
    assert len([line for line in removed if line.startswith("image")]) >= 2
    for gone in (dead, before):
        label = f"hc-ray.owner={gone}"
        assert (daemon.containers(label), daemon.images(label)) == ([], [])
    assert (await mine.exec(["true"], timeout=5)).exit_code == 0
    assert (await kept.exec(["true"], timeout=5)).exit_code == 0
    await theirs.close()


async def test_a_container_lives_as_long_as_its_lease_is_renewed_and_nothing_inside_ends_or_freezes_it(
    tmp_path, daemon, monkeypatch
):
    # On a busy machine the first process may be slower to hide itself than a command to start.
    *python, start, keeper = machinery_command("keep")
    slow = [*python, f"import time; time.sleep(2); {start}", keeper]
    monkeypatch.setattr("hc_ray.sandboxes.docker.place.machinery_command", lambda name: slow)
    monkeypatch.setattr("hc_ray.sandboxes.docker.place.LEASE_SECONDS", 2.0)
    place = DockerPlace(tmp_path, owner=current_owner())
    sandbox = await place.create(task_with_environment(tmp_path), "a")
    attack = ("for name in KILL STOP TERM INT HUP; do kill -$name 1; done; (sleep 0.1 &) ; "
              "cat /proc/1/fd/0; cat /proc/1/environ; sleep 0.3; echo over")  # fmt: skip
    said = await sandbox.exec(["sh", "-c", attack], timeout=10)
    assert said.stdout.decode() == "over\n" and said.stderr.decode().count("denied") == 2
    assert _runs(daemon, sandbox.container)
    zombies = await sandbox.exec(["sh", "-c", "cat /proc/[0-9]*/stat | cut -d' ' -f3 | grep -c Z"], timeout=10)
    assert zombies.stdout.decode() == "0\n"
    await asyncio.sleep(2.5)
    assert _runs(daemon, sandbox.container)
    monkeypatch.setattr(Ground, "renew", lambda ground: None)
    await asyncio.to_thread(wait, lambda: not _runs(daemon, sandbox.container), 10, "its end")
    await place.close()


def _runs(daemon: Daemon, container: str) -> bool:
    try:
        return daemon.process(container) != 0
    except Absent:
        return False
