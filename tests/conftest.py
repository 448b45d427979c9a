"""What every test may count on: one marked ``docker`` runs only where a daemon answers, and on CI one must answer."""

import functools
import os

import pytest

PROOFS = frozenset(
    {
        "test_audit",
        "test_audit_interference",
        "test_capability_started",
        "test_engine_killed",
        "test_grading_modes",
        "test_honest_installs",
        "test_hostile",
        "test_left_behind",
        "test_secrets",
        "test_unscored",
    }
)
"""Files of whole experiments (below boundary and e2e), minutes each. They are marked ``proof``: `scripts/test --all`
runs them with all else, `scripts/test -m proof` alone, and scripts/trust-page those that it names; a bare
`scripts/test`, which is what CI calls, leaves them out. Of the hostile candidates that runs bubblewrap's half, as a
normal user (tests/contract/test_sandbox_as_user.py): what they take of the machine's memory is measured on the whole
machine, where other tests run beside them."""


APART = {
    **dict.fromkeys(("test_agent_user_graded", "test_grading_modes", "test_honest_installs", "test_secrets",
                     "test_starter_graded", "test_terminal_graded", "test_terminal_played", "test_unscored")),
    "test_cheats": "outcomes", "test_hostile": "backend",
}  # fmt: skip
"""Files whose tests need not run in one process: of each the fixture by whose parameter they are divided, or ``None``
where each test stands alone. What the tests of any other file share is made once, so they stay together."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in PROOFS and item.path.parent.name in ("boundary", "e2e"):
            item.add_marker("proof")
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    if "not proof" not in config.option.markexpr:
        proven = {(item.path, _function(item)) for item in items if item.get_closest_marker("proof")}
        part = {item for item in items if item.get_closest_marker("part") and (item.path, _function(item)) in proven}
        config.hook.pytest_deselected(items=[item for item in items if item in part])
        items[:] = [item for item in items if item not in part]


def _function(item: pytest.Item) -> str:
    return item.name.partition("[")[0]


def _group(item: pytest.Item) -> str:
    """What of the tests runs in one process of several (``--dist=loadgroup``)."""
    file = f"{item.path.parent.name}/{item.path.stem}"
    if item.path.stem not in APART or item.path.parent.name not in ("boundary", "e2e"):
        return file
    if (divided_by := APART[item.path.stem]) is None:
        return f"{file}:{item.name.translate(_NO_BRACKETS)}"
    parameters = item.callspec.indices if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return f"{file}:{parameters.get(divided_by)}"


_NO_BRACKETS = str.maketrans("[]@", "---")
"""xdist takes for a group what stands behind the last ``@`` that no bracket follows."""


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
