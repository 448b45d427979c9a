"""What every test may count on: one marked ``docker`` runs only where a daemon answers, and on CI one must answer."""

import functools
import os

import pytest


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
