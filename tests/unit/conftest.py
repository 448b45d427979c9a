"""What unit tests share: no generated example is judged by how long it took, a data root of a test's own, and processes
that end with their test."""

import subprocess

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """``HC_RAY_HOME``, a folder that is not there yet."""
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def sleeper():
    """Starts a process that sleeps, as ``Popen`` does."""
    started = []

    def start(**options):
        started.append(subprocess.Popen(["sleep", "600"], **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()
