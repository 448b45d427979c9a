"""What a node of a cluster offers."""

import json
import subprocess
import sys
import tempfile

import pytest

from hc_ray.domain.errors import ConfigError
from hc_ray.machine import cleanup
from hc_ray.machine.owner import label
from hc_ray_actors.node_probe import NodeProbe
from hc_ray_actors.node_slots import node_slots


class Host:
    def __init__(self, *working: str) -> None:
        self._working = working

    def fault(self, backend):
        return None if backend in self._working else f"install {backend}"


@pytest.mark.parametrize("working", ["docker", "bwrap"])
def test_a_host_with_either_sandbox_gets_slots_of_all_three_kinds(working, tmp_path):
    slots, why = node_slots(here=Host(working), gpus=tmp_path)
    assert slots["engine_slot"] == 1 and slots["sandbox_slot"] >= 1 and slots["verifier_slot"] >= 1 and why == ""


def test_a_host_without_sandboxes_gets_an_engine_for_each_gpu_alone_and_says_why(tmp_path):
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    slots, why = node_slots(here=Host(), gpus=tmp_path)
    assert slots == {"engine_slot": 2, "sandbox_slot": 0, "verifier_slot": 0}
    assert "docker: install docker" in why and "bwrap: install bwrap" in why


async def test_the_look_at_a_node_before_a_sweep_removes_what_a_dead_one_left_there_and_nothing_of_the_living(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, living = (cleanup.owned_folder("engine") for _ in range(2))
    (dead / cleanup.OWNER_FILE).write_text(label("4194304-1"))  # a number that no process has
    await NodeProbe().report(())
    assert living.exists() and not dead.exists()


@pytest.mark.parametrize("given", ["gpu=1", "engine_slot", "engine_slot=-1", "sandbox_slot=all"])
def test_slots_that_are_none_are_refused_with_the_form(given):
    with pytest.raises(ConfigError, match="is not one of engine_slot=N"):
        node_slots(given, here=Host("bwrap"))


def test_ray_start_gets_what_is_given_before_what_the_host_has_as_json_and_a_wrong_variable_ends_in_one_line(
    monkeypatch,
):
    words = [sys.executable, "-m", "hc_ray_actors.node_slots"]
    monkeypatch.setenv("HC_RAY_SLOTS", "engine_slot=0,sandbox_slot=8")
    slots = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert (slots["engine_slot"], slots["sandbox_slot"]) == (0, 8) and "verifier_slot" in slots
    monkeypatch.setenv("HC_RAY_SLOTS", "x")
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and done.stdout == ""
