"""Agents and selectors of a user's own: what a name comes to, and what is refused."""

import sys
from pathlib import Path

import pytest

from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.machine import own_code

AGENT = """
from hc_ray.api import Agent

class Mine(Agent):
    said = {said}

    async def solve(self, attempt):
        return None
"""
SOUND = AGENT.format(said=1)


@pytest.fixture
def write(home, tmp_path, monkeypatch):
    """Writes a file of the user's folder, in which the command line runs; its modules are forgotten afterwards."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def written(path: str, text: str) -> Path:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        return folder / path

    yield written
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def refused(name: str) -> str:
    with pytest.raises(ConfigError) as raised:
        own_code.settled(SweepConfig(agents=(name,)))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_name_gets_the_digest_of_its_source_and_another_source_another_digest(write) -> None:
    write("alpha.py", SOUND)
    first = own_code.keep("alpha:Mine")
    assert own_code.keep("alpha:Mine") == first and own_code.keep(first) == first
    module, _, digest = first.partition("@")
    assert module == "alpha:Mine" and len(digest) == 12
    write("beside.py", "no part of it")
    assert own_code.keep("alpha:Mine") == first
    write("alpha.py", AGENT.format(said=2))
    second = own_code.keep("alpha:Mine")
    assert second != first
    assert (own_code.load(first).said, own_code.load(second).said) == (1, 2)


def test_a_sweep_planned_with_another_source_says_what_it_is_now_and_an_altered_copy_is_not_loaded(write, tmp_path):
    write("beta.py", SOUND)
    first = own_code.keep("beta:Mine")
    write("beta.py", AGENT.format(said=2))
    assert refused(first) == f"{first}: the source has changed since; it is {own_code.keep('beta:Mine')} now"
    (tmp_path / "home/own" / first.partition("@")[2] / "beta.py").write_text(AGENT.format(said=2))
    with pytest.raises(ConfigError, match="this source is not on this machine"):
        own_code.agent_of(first)


def test_what_runs_is_the_copy_also_where_the_process_has_imported_the_users_module(write) -> None:
    path = write("delta.py", SOUND)
    sys.path.insert(0, str(path.parent))
    import delta

    name = own_code.keep("delta:Mine")
    assert own_code.load(name).solve.__code__.co_filename != str(path)
    assert sys.modules["delta"] is delta


def test_a_module_of_a_package_imports_its_neighbours_and_all_of_them_count(write) -> None:
    write("crew/__init__.py", "")
    write("crew/values.py", "SAID = 1")
    write("crew/agents.py", "from .values import SAID\n" + AGENT.format(said="SAID"))
    first = own_code.keep("crew.agents:Mine")
    write("crew/values.py", "SAID = 2")
    second = own_code.keep("crew.agents:Mine")
    assert (own_code.load(first).said, own_code.load(second).said) == (1, 2)


@pytest.mark.parametrize("imported_before", [False, True])
def test_a_neighbour_outside_of_its_package_is_not_imported_since_no_digest_would_tell_of_it(write, imported_before):
    path = write("epsilon_values.py", "SAID = 1")
    write("epsilon.py", "from epsilon_values import SAID\n" + AGENT.format(said="SAID"))
    sys.path.insert(0, str(path.parent))
    if imported_before:
        import epsilon_values  # noqa: F401
    assert "No module named 'epsilon_values'" in refused("epsilon:Mine")
    assert ("epsilon_values" in sys.modules) == imported_before and sys.path[0] == str(path.parent)


@pytest.mark.parametrize(("path", "text", "said"), [
    ("tasks/one/task.toml", "", "contains tasks, which an agent's package must not"),
    ("data.txt", "x" * (own_code.MOST_BYTES + 1), "contains more than 4 MiB"),
], ids=["tasks", "too much"])  # fmt: skip
def test_a_package_that_holds_tasks_or_too_much_is_refused(write, path, text, said):
    write("zeta/__init__.py", SOUND)
    write(f"zeta/{path}", text)
    assert said in refused("zeta:Mine")


@pytest.mark.parametrize(("name", "text", "said"), [
    ("nowhere:Mine", "", "no module nowhere in this folder or among the installed packages"),
    ("hc_ray.api:Agent", "", "no module hc_ray in this folder"),
    ("__main__:Mine", "", "is in the running script; move it to a separate module"),
    ("bad:Other", SOUND, "bad has no Other"),
    ("bad:Mine", "class Mine:\n    async def solve(self, attempt): ...", "must be a subclass of hc_ray.api.Agent"),
    ("bad:Mine", SOUND.replace("async ", ""), "must be a subclass of hc_ray.api.Agent"),
    ("bad:Mine", SOUND.replace(", attempt", ""), "and its solve exactly one: too many positional"),
    ("bad:Mine", SOUND + "    def __init__(self, n): ...", "must take no arguments"),
    ("bad:Mine", SOUND + "    def __init__(self): 1 / 0", "division by zero"),
    ("bad:Mine", "raise ValueError('two\\nlines')", "cannot be imported from its own module or package: ValueError"),
    ("bad:Mine", "import sys; sys.exit(3)", "SystemExit: 3"), ("bad:Mine", "def broken(:", "SyntaxError"),
])  # fmt: skip
def test_a_name_that_stands_for_no_agent_is_refused_in_one_line_that_says_why(write, name, text, said) -> None:
    if text:
        write("bad.py", text)
    assert said in refused(name)


def test_a_selector_must_take_the_matrix_and_the_tests(write) -> None:
    write("theta.py", "def good(matrix, tests): ...\ndef lean(matrix): ...\nnumber = 3")
    for attribute in ("lean", "number"):
        with pytest.raises(ConfigError, match=r"must be a function of two arguments \(matrix, tests\)"):
            own_code.settled(SweepConfig(solver=SolverConfig(selector=f"theta:{attribute}")))
    settled = own_code.settled(SweepConfig(solver=SolverConfig(selector="theta:good")))
    assert settled.solver.selector == own_code.keep("theta:good") and settled.agents == SweepConfig().agents
