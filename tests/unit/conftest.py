"""What unit tests share: no generated example is judged by how long it took, and a data root of a test's own."""

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """``HC_RAY_HOME``, a folder that is not there yet."""
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
