import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.processes import ran

CHECKOUT = Path(__file__).parents[2]
VALIDATE = """
import json, sys
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(json.load(sys.stdin))
validate_config(config)
print(json.dumps(config))
"""


@pytest.fixture
def cluster() -> dict[str, Any]:
    return yaml.safe_load((CHECKOUT / "cluster.yaml").read_text())


def validated(config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What Ray's own preparation and validation say, in a process of its own."""
    env = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return ran(sys.executable, "-c", VALIDATE, input=json.dumps(config), env=env)


def test_ray_up_takes_the_shipped_cluster_config_and_refuses_an_unknown_field(cluster):
    result = validated(cluster)
    assert result.returncode == 0, result.stderr
    prepared = json.loads(result.stdout.splitlines()[-1])
    workers = len(cluster["provider"]["worker_ips"])
    assert prepared["available_node_types"]["local.cluster.node"]["min_workers"] == workers
    assert validated({**cluster, "seeded_field": 1}).returncode != 0


def test_every_node_is_started_with_the_slots_that_the_actors_ask_for(cluster: dict[str, Any]) -> None:
    from hc_ray_actors.cluster import ENGINE, SANDBOX, VERIFIER

    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        start = commands[-1]
        assert all(f'"{slot}"' in start for slot in (ENGINE, SANDBOX, VERIFIER))
        assert "RAY_AUTH_MODE=token" in start and "RAY_ENABLE_UV_RUN_RUNTIME_ENV=0" in start
        assert "RAY_USAGE_STATS_ENABLED=0" in start


def test_the_start_commands_hand_ray_resources_that_are_json(cluster: dict[str, Any], tmp_path: Path) -> None:
    ray = tmp_path / "hc-ray/bin/ray"
    ray.parent.mkdir(parents=True)
    ray.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    ray.chmod(0o755)
    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "RAY_HEAD_IP": "192.0.2.10"}
        shown = ran("bash", "-c", commands[-1], env=env, check=True).stdout
        given = next(line for line in shown.splitlines() if line.startswith("--resources="))
        assert all(value >= 1 for value in json.loads(given.removeprefix("--resources=")).values())


def test_nodes_get_the_wheel_and_the_token_but_never_the_checkout(cluster: dict[str, Any]) -> None:
    assert set(cluster["file_mounts"].values()) == {"./dist", "~/.local/share/hc-ray/keys/ray_token"}
    assert any("hc-ray-dist/*.whl" in command for command in cluster["setup_commands"])
