import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.processes import program, ran

CHECKOUT = Path(__file__).parents[2]
VALIDATE = """
import json, sys
from ray.autoscaler._private.util import prepare_config, validate_config
told = []
for config in json.load(sys.stdin):
    try:
        config = prepare_config(config)
        validate_config(config)
        told.append(config)
    except Exception as fault:
        told.append(str(fault))
print(json.dumps(told))
"""
"""What Ray's own preparation and validation say to each of some configs."""


@pytest.fixture
def cluster() -> dict[str, Any]:
    return yaml.safe_load((CHECKOUT / "cluster.yaml").read_text())


def at_home(folder: Path) -> dict[str, str]:
    """The environment of a user who has the folder for a home, and programs in its ``bin``."""
    return {"HOME": str(folder), "PATH": f"{folder}/bin:/usr/bin:/bin"}


def test_ray_up_takes_the_shipped_cluster_config_and_its_cloud_variants_and_refuses_an_unknown_field(cluster):
    texts = [(CHECKOUT / f"docs/clusters/{cloud}.yaml").read_text() for cloud in ("aws", "gcp")]
    assert all(text.startswith("# Not run here") for text in texts)
    own = {name: value for name, value in cluster.items() if name not in {"provider", "auth"}}
    configs = [cluster, *({**own, **yaml.safe_load(text)} for text in texts), {**cluster, "seeded_field": 1}]
    env = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    done = ran(sys.executable, "-c", VALIDATE, input=json.dumps(configs), env=env, check=True)
    shipped, aws, gcp, seeded = json.loads(done.stdout.splitlines()[-1])
    workers = len(cluster["provider"]["worker_ips"])
    assert shipped["available_node_types"]["local.cluster.node"]["min_workers"] == workers
    assert isinstance(aws, dict) and isinstance(gcp, dict), (aws, gcp)
    assert "seeded_field" in seeded


def test_every_node_asks_for_the_token_and_starts_with_the_slots_that_its_host_has(cluster, tmp_path):
    # Ray's ssh commands begin with the user's ~/.bashrc.
    program(tmp_path / "hc-ray/bin/ray", 'env\nprintf "%s\\n" "$@"')
    (tmp_path / "hc-ray/bin/python").symlink_to(sys.executable)
    prepare = [line for line in cluster["setup_commands"] if ".hc-ray-env" in line]
    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        env = {**at_home(tmp_path), "RAY_HEAD_IP": "192.0.2.10", "HC_RAY_SLOTS": "engine_slot=3",
               "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # fmt: skip
        for line in prepare:
            ran("bash", "-c", line, env=env, check=True)
        shown = ran("bash", "-c", f". ~/.bashrc; {commands[-1]}", env=env, check=True).stdout.splitlines()
        token = f"RAY_AUTH_TOKEN_PATH={tmp_path}/.local/share/hc-ray/keys/ray_token"
        fixed = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV=0", "RAY_USAGE_STATS_ENABLED=0", "RAY_worker_niceness=0"}
        assert {"RAY_AUTH_MODE=token", token, *fixed} <= set(shown)
        given = next(line for line in shown if line.startswith("--resources="))
        slots = json.loads(given.removeprefix("--resources="))
        assert slots["engine_slot"] == 3 and set(slots) == {"engine_slot", "sandbox_slot", "verifier_slot"}
    assert (tmp_path / ".bashrc").read_text() == ". ~/.hc-ray-env\n"  # once


@pytest.mark.parametrize(("failures", "code"), [(2, 0), (3, 1)])
def test_a_node_too_busy_to_come_up_in_the_time_that_ray_gives_it_is_started_again(cluster, tmp_path, failures, code):
    program(tmp_path / "bin/ray", f'echo "$1" >> ~/told\n[ "$(grep -c start ~/told)" -gt {failures} ]')
    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        (tmp_path / "told").unlink(missing_ok=True)
        done = ran("bash", "-c", f"({commands[-1]})", env=at_home(tmp_path))
        assert done.returncode == code, done.stderr
        assert (tmp_path / "told").read_text().split() == ["start", "stop", "start", "stop", "start"]


def test_ctrl_c_while_ray_starts_ends_ray_up_and_starts_nothing_again(cluster, tmp_path):
    program(tmp_path / "bin/ray", "echo $1 >> ~/told\ntrap '' INT\nkill -INT 0\nexit 1")  # as Ray answers it
    for number, kind in enumerate(("head", "worker"), 1):
        command = f"export PATH={tmp_path}/bin:$PATH; ({cluster[f'{kind}_start_ray_commands'][-1]})"
        # At a terminal, and in an interactive shell, as Ray's ssh commands run.
        asks = ("script", "-qec", shlex.join(["bash", "--login", "-i", "-c", command]), "/dev/null")
        # Which a background job is born without.
        done = ran("env", "--default-signal=INT", *asks, env=at_home(tmp_path))
        assert (done.returncode, (tmp_path / "told").read_text()) == (130, "start\n" * number), done.stdout


def test_a_worker_that_is_switched_on_days_after_ray_up_is_still_waited_for(cluster, tmp_path):
    asked = "from ray.autoscaler._private.updater import AUTOSCALER_NODE_START_WAIT_S as seconds; print(seconds)"
    program(tmp_path / "bin/ray", f'exec {sys.executable} -c "{asked}"')
    done = ran("bash", "-c", f"({cluster['head_start_ray_commands'][-1]})", env=at_home(tmp_path))
    assert int(done.stdout) > 30 * 24 * 3600, done.stderr


def test_nodes_get_the_wheel_and_the_token_but_never_the_checkout(cluster: dict[str, Any]) -> None:
    assert set(cluster["file_mounts"].values()) == {"./dist/cluster", "~/.local/share/hc-ray/keys/ray_token"}
    assert any("hc-ray-dist/*.whl" in command for command in cluster["setup_commands"])


PIP = """[ ! -e ~/broken ] || { mkdir ~/hc-ray/lib; exit 1; }
mkdir ~/busy || { echo "two at once" >&2; exit 1; }
sleep 0.2
echo "$*" >> ~/pip.log
rmdir ~/busy
"""


def test_machines_that_share_a_home_install_there_once_and_again_when_the_wheel_has_changed(cluster, tmp_path):
    install = "; ".join(line for line in cluster["setup_commands"] if "hc-ray/bin/pip" in line)
    program(tmp_path / "bin/pip", PIP)
    program(tmp_path / "bin/python3", "mkdir -p $3/bin && cp ~/bin/pip $3/bin/")
    wheel = tmp_path / "hc-ray-dist/hc_ray-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.with_name("constraints.txt").touch()
    env = at_home(tmp_path)
    for number, text in enumerate(("one", "the same version"), 1):
        wheel.write_text(text)
        nodes = [subprocess.Popen(["bash", "-c", install], env=env) for _ in range(3)]
        assert [node.wait(30) for node in nodes] == [0, 0, 0]
        assert len((tmp_path / "pip.log").read_text().splitlines()) == 2 * number
    (tmp_path / "broken").touch()
    wheel.write_text("half of it came")
    assert subprocess.run(["bash", "-c", install], env=env, timeout=30).returncode
    (tmp_path / "broken").unlink()
    wheel.write_text("the same version")
    assert subprocess.run(["bash", "-c", install], env=env, timeout=30).returncode == 0
    assert len((tmp_path / "pip.log").read_text().splitlines()) == 6, "which may have become half of another"
    assert not (tmp_path / "hc-ray/lib").exists(), "pip would take what lies there for whole"
