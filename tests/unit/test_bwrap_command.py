from pathlib import Path

import pytest

from hc_ray.domain.task import Copy, Environment, Task
from hc_ray.sandboxes.bwrap import command as bwrap

RUNNER = Path("/var/lib/runner")


@pytest.fixture
def host(tmp_path):
    for folder in ("usr/bin", "usr/lib", "usr/local/bin", "usr/src", "etc", "root", "home/user", "work"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("bin", "lib"):
        (tmp_path / name).symlink_to(f"usr/{name}")
    (tmp_path / "usr/bin/env").write_text("")
    (tmp_path / "etc/shadow").write_text("secret")
    (tmp_path / "etc/ld.so.cache").write_text("cache")
    return tmp_path


def task(**wants):
    return Task(name="t", digest="d", instruction="", environment=Environment.model_validate(wants))


def test_of_the_host_programs_libraries_and_runner_are_seen_and_a_folder_that_is_written_below_entry_by_entry(host):
    placed = bwrap.layout(["/app"], RUNNER, host)
    assert placed.mounts == {"/usr": host / "usr", "/etc/ld.so.cache": host / "etc/ld.so.cache", "/.hc": RUNNER}
    assert placed.links == {"/bin": "usr/bin", "/lib": "usr/lib"}
    assert {"/app", "/tmp", "/usr", "/proc"} <= set(placed.folders)
    placed = bwrap.layout(["/usr/src/app", "/usr/local/mine"], RUNNER, host)
    assert {place for place in placed.mounts if place.startswith("/usr")} == {"/usr/bin", "/usr/lib", "/usr/local/bin"}
    assert {"/usr", "/usr/src", "/usr/src/app", "/usr/local", "/usr/local/mine"} <= set(placed.folders)


@pytest.mark.parametrize("path", ["/usr/bin", "/usr", "/proc/x", "/dev", "/etc/x", "/.hc/x"])
def test_a_place_that_is_the_hosts_or_the_kernels_is_refused_and_one_in_a_folder_of_many_entries(host, path):
    with pytest.raises(bwrap.Unplaceable, match=path):
        bwrap.layout([path], RUNNER, host)
    for number in range(bwrap.MAX_SPLIT + 1):
        (host / f"usr/lib/{number}").touch()
    with pytest.raises(bwrap.Unplaceable, match="entries"):
        bwrap.layout(["/usr/lib/mine"], RUNNER, host)


def test_what_hc_ray_itself_keeps_among_the_hosts_programs_is_an_empty_folder_inside(host, monkeypatch):
    """As after `pip install` into the system's Python: the sealed archive of the starter set lies below /usr."""
    package = host / "usr/lib/python3/site-packages/hc_ray/_configs"
    package.mkdir(parents=True)
    data = host / "usr/local/share/hc-ray"
    (data / "sealed").mkdir(parents=True)
    monkeypatch.setattr(bwrap, "configs_dir", lambda: package)
    monkeypatch.setattr(bwrap, "data_root", lambda: data)
    placed = bwrap.layout(["/app"], RUNNER, host)
    hidden = ("/usr/lib/python3/site-packages/hc_ray/_configs", "/usr/local/share/hc-ray")
    assert placed.hidden == hidden
    words = bwrap.argv(Path("bwrap"), Path("/state"), placed, ["init.py"], 7)
    for place in hidden:
        over = words.index(place, words.index("/usr"))
        assert words[over - 1] == "--tmpfs" and words[over + 1 : over + 3] == ["--remount-ro", place]


def test_a_dataset_among_the_hosts_programs_could_be_read_inside(host, monkeypatch):
    package = host / "usr/lib/hc_ray/_configs"
    (package / "tasks/starter").mkdir(parents=True)
    monkeypatch.setattr(bwrap, "configs_dir", lambda: package)
    assert bwrap.shows(host / "usr/src", host) and bwrap.shows(host / "lib/python3", host)
    assert not bwrap.shows(host / "work", host) and not bwrap.shows(package / "tasks/starter", host)


def test_every_wall_is_on_the_command_line(host):
    command = bwrap.argv(Path("bwrap"), Path("/state"), bwrap.layout(["/app"], RUNNER, host), ["init.py"], 7)
    walls = {"--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--die-with-parent", "--clearenv"}
    assert walls <= set(command)
    writable = [command[at + 1 : at + 3] for at, word in enumerate(command) if word == "--bind"]
    assert writable == [["/state", "/"]]
    sources = {command[at + 1] for at, word in enumerate(command) if word == "--ro-bind"}
    assert sources == {str(host / "usr"), str(host / "etc/ld.so.cache"), str(RUNNER)}


def test_a_task_writes_where_it_copies_and_the_runner_comes_first_on_its_path():
    copies = (Copy(sources=("a",), destination="/data/"), Copy(sources=("b",), destination="/usr/share/x/b"))
    assert bwrap.written_folders(task(workdir="/w", copies=copies)) == {"/w", "/root", "/data", "/usr/share/x"}
    assert bwrap.environment({})["PATH"].startswith("/.hc/bin:")
    assert bwrap.environment({"PATH": "/x", "A": "1"})["PATH"] == "/.hc/bin:/x"
    assert bwrap.environment({"HOME": "/home/u"})["HOME"] == "/home/u"


@pytest.mark.parametrize(("wants", "word"), [
    ({"run_steps": ("make",)}, "RUN make"), ({"compose": True}, "compose"), ({"gpus": 1}, "GPU"),
    ({"network": "public"}, "network"), ({"network": "allowlist"}, "network"), ({"base": "python:2.7"}, "python:2.7"),
    ({"base": "alpine:3"}, "alpine"), ({"base": "node:20"}, "node"),
    ({"docker_image": "ghcr.io/x/python:3"}, "ghcr.io"), ({"base": "gcc:12"}, "compiler"),
    ({"base": "debian:12", "dockerfile": "FROM debian:12\nUSER nobody:users\n"}, "run as the user nobody"),
    *(({"base": base}, None) for base in (None, "python:3.11-slim-bookworm", "debian:bookworm-slim", "ubuntu:24.04",
                                          "docker.io/library/python:3")),
])  # fmt: skip
def test_a_task_that_needs_more_than_the_host_has_is_refused_with_the_reason(wants, word):
    refused = bwrap.refusal(task(**wants), host_programs=()) or ""
    assert word in refused if word else not refused


def test_a_task_that_needs_a_compiler_is_taken_where_the_host_has_one():
    assert bwrap.refusal(task(base="gcc:12"), host_programs=("cc",)) is None


def test_the_user_that_a_task_names_for_its_agent_comes_before_the_images():
    given = task(base="debian:12", dockerfile="FROM debian:12\nUSER nobody\n")
    assert bwrap.refusal(given.model_copy(update={"agent_user": "root"}), host_programs=()) is None
    says = "its commands run as the user worker: a bwrap sandbox has no users but its own"
    assert bwrap.refusal(given.model_copy(update={"agent_user": "worker"}), host_programs=()) == says
