import json
import os
import shlex
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


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_ray_up_takes_the_cloud_variants_in_the_place_of_ones_own_machines(cluster, cloud):
    text = (CHECKOUT / f"docs/clusters/{cloud}.yaml").read_text()
    own = {name: value for name, value in cluster.items() if name not in {"provider", "auth"}}
    result = validated({**own, **yaml.safe_load(text)})
    assert result.returncode == 0, result.stderr
    assert text.startswith("# Not run here")


def test_every_node_asks_for_the_token_and_starts_with_the_slots_that_its_host_has(cluster, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "hc-ray/bin").mkdir(parents=True)
    # Ray's ssh commands begin with the user's ~/.bashrc.
    (tmp_path / "hc-ray/bin/ray").write_text('#!/bin/sh\nenv\nprintf "%s\\n" "$@"\n')
    (tmp_path / "hc-ray/bin/ray").chmod(0o755)
    (tmp_path / "hc-ray/bin/python").symlink_to(sys.executable)
    prepare = [line for line in cluster["setup_commands"] if ".hc-ray-env" in line]
    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin", "RAY_HEAD_IP": "192.0.2.10",
               "HC_RAY_SLOTS": "engine_slot=3", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # fmt: skip
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
    (tmp_path / "ray").write_text(f'#!/bin/sh\necho "$1" >> ~/told\n[ "$(grep -c start ~/told)" -gt {failures} ]\n')
    (tmp_path / "ray").chmod(0o755)
    for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"]):
        (tmp_path / "told").unlink(missing_ok=True)
        done = ran("bash", "-c", f"({commands[-1]})", env={"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"})
        assert done.returncode == code, done.stderr
        assert (tmp_path / "told").read_text().split() == ["start", "stop", "start", "stop", "start"]


def test_ctrl_c_while_ray_starts_ends_ray_up_and_starts_nothing_again(cluster, tmp_path):
    (tmp_path / "ray").write_text(
        "#!/bin/sh\necho $1 >> ~/told\ntrap '' INT\nkill -INT 0\nexit 1\n"
    )  # as Ray answers it
    (tmp_path / "ray").chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    for number, kind in enumerate(("head", "worker"), 1):
        command = f"export PATH={tmp_path}:$PATH; ({cluster[f'{kind}_start_ray_commands'][-1]})"
        # At a terminal, and in an interactive shell, as Ray's ssh commands run.
        asks = ("script", "-qec", shlex.join(["bash", "--login", "-i", "-c", command]), "/dev/null")
        done = ran("env", "--default-signal=INT", *asks, env=env)  # which a background job is born without
        assert (done.returncode, (tmp_path / "told").read_text()) == (130, "start\n" * number), done.stdout


def test_a_worker_that_is_switched_on_days_after_ray_up_is_still_waited_for(cluster, tmp_path):
    asked = "from ray.autoscaler._private.updater import AUTOSCALER_NODE_START_WAIT_S as seconds; print(seconds)"
    (tmp_path / "ray").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{asked}"\n')
    (tmp_path / "ray").chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = ran("bash", "-c", f"({cluster['head_start_ray_commands'][-1]})", env=env)
    assert int(done.stdout) > 30 * 24 * 3600, done.stderr


def test_nodes_get_the_wheel_and_the_token_but_never_the_checkout(cluster: dict[str, Any]) -> None:
    assert set(cluster["file_mounts"].values()) == {"./dist/cluster", "~/.local/share/hc-ray/keys/ray_token"}
    assert any("hc-ray-dist/*.whl" in command for command in cluster["setup_commands"])


PIP = """#!/bin/sh
[ ! -e ~/broken ] || { mkdir ~/hc-ray/lib; exit 1; }
mkdir ~/busy || { echo "two at once" >&2; exit 1; }
sleep 0.2
echo "$*" >> ~/pip.log
rmdir ~/busy
"""


def test_machines_that_share_a_home_install_there_once_and_again_when_the_wheel_has_changed(cluster, tmp_path):
    install = "; ".join(line for line in cluster["setup_commands"] if "hc-ray/bin/pip" in line)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pip").write_text(PIP)
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nmkdir -p $3/bin && cp ~/bin/pip $3/bin/\n")
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    wheel = tmp_path / "hc-ray-dist/hc_ray-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.with_name("constraints.txt").touch()
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
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
