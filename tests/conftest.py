"""What every test may count on: one marked ``docker`` runs only where a daemon answers, and on CI one must answer."""

import functools
import gc
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROOFS = {
    "test_agent_user_graded", "test_audit", "test_audit_interference", "test_capability_started", "test_claude_sweep",
    "test_engine_killed", "test_grading_modes", "test_harbor", "test_honest_installs", "test_hostile",
    "test_left_behind", "test_python_page", "test_secrets", "test_unscored",
}  # fmt: skip
"""Files of whole experiments (below boundary and e2e). They are marked ``proof``: `scripts/test --all` runs them with
all else, `scripts/test -m proof` alone, and scripts/trust-page those that it names; a bare `scripts/test` leaves them
out. CI runs by itself those that show what others build on or with (.ci/run names them), and single tests elsewhere
that are marked alike: the wheel's demo, non-interference in Docker, the sandbox suites as a normal user. The last tries
bubblewrap's half of hostile candidates, too: what they take of the machine's memory is measured on the
whole machine, where other tests run beside them."""


_EACH = r"::(.*)"
APART = {
    **dict.fromkeys(("test_agent_user_graded", "test_grading_modes", "test_honest_installs", "test_secrets",
                     "test_starter_graded", "test_terminal_graded", "test_terminal_played", "test_unscored"), _EACH),
    "test_cheats": r"\[(bwrap|docker(?:-shared)?)\b", "test_hostile": r"\[(bwrap|docker)\b",
}  # fmt: skip
"""Files (below boundary and e2e) whose tests need not run in one process, and what of a test's name says which belong
together. What the tests of any other file share is made once, so they stay together."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes each takes a group of tests at a time."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


@functools.cache
def group(nodeid: str) -> str:
    """What runs in one process, by a test's identifier."""
    file = nodeid.partition("::")[0]
    path = Path(file)
    by = APART.get(path.stem) if path.parent.name in ("boundary", "e2e") else None
    found = by and re.search(by, nodeid)
    return f"{file} {found[1]}" if found else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in PROOFS and item.path.parent.name in ("boundary", "e2e"):
            item.add_marker("proof")
    _longest_first(items)
    if "not proof" not in config.option.markexpr:
        proven = {(item.path, _function(item)) for item in items if item.get_closest_marker("proof")}
        part = {item for item in items if item.get_closest_marker("part") and (item.path, _function(item)) in proven}
        config.hook.pytest_deselected(items=[item for item in items if item in part])
        items[:] = [item for item in items if item not in part]


def _longest_first(items: list[pytest.Item]) -> None:
    """Proofs wait for minutes, and what is ``slow`` for ten seconds and more: begun last, they would leave all but one
    process without work at the end."""
    proofs, slow = ({group(one.nodeid) for one in items if one.get_closest_marker(name)} for name in ("proof", "slow"))
    items.sort(key=lambda item: (group(item.nodeid) not in proofs, group(item.nodeid) not in slow))


def _function(item: pytest.Item) -> str:
    return item.name.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """What is collected stays: looking through it again and again for garbage costs a quarter of the time it takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def why_no_docker() -> str | None:
    """Why no Docker daemon can be used here, or ``None`` if one answers."""
    import docker

    try:
        client = docker.from_env(timeout=20)
        try:
            client.ping()
        finally:
            client.close()
    except (docker.errors.DockerException, OSError) as error:
        return str(error).splitlines()[0]
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") is None or (reason := why_no_docker()) is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs a Docker daemon, run scripts/ci-setup as root: {reason}", pytrace=False)
    pytest.skip(f"no Docker daemon answers ({reason}); as root scripts/ci-setup gives this machine one")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``HC_RAY_HOME``, a folder that is not there yet."""
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def hc_ray(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The command line in this process: what it prints, as data with ``--json``; where another exit ``code`` than 0 is
    due, what it says on standard error."""

    def call(*words: object, code: int = 0) -> Any:
        from hc_ray.cli.app import run

        capsys.readouterr()
        ended, said = run([str(word) for word in words]), capsys.readouterr()
        assert ended == code, said.err
        return json.loads(said.out) if "--json" in words else said.err if code else said.out

    return call
