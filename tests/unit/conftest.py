"""What unit tests share: no generated example is judged by how long it took, and processes end with their test."""

import subprocess

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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
