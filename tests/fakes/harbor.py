"""Harbor itself, in a Python of its own: made where it is missing, beside the checkout and never in our lock."""

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.fakes.packages import build_wheel, uv
from tests.fakes.sweeps import REPOSITORY

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hc-ray-harbor"
LAGGING = "certifi>=2026.1\n"
"""Harbor 0.25 asks for a release of certifi that package indexes have later than Harbor itself."""


def run(*words: object, **options: Any) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=540, **options)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def newer_python() -> Path:
    names = [f"python3.{minor}" for minor in range(12, 20)]
    own = sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*/bin/python"))
    for candidate in [sys.executable, *filter(None, map(shutil.which, names)), *own]:
        asks = "import sys; sys.exit(sys.version_info < (3, 12))"
        if subprocess.run([candidate, "-c", asks], capture_output=True).returncode == 0:
            return Path(candidate)
    raise AssertionError(
        "Harbor needs Python 3.12 or later: apt-get install python3.12, pyenv install 3.12 or uv python install"
    )


@functools.cache
def harbor_home() -> Path:
    """A virtual environment with the newest Harbor that the package index has, and Docker's Compose where the machine
    lacks it; kept for the next run."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = CACHE / "env"
        if not (made / "bin/harbor").exists():
            shutil.rmtree(made, ignore_errors=True)
            uv("venv", "--python", newer_python(), made, cwd=CACHE)
            (CACHE / "override.txt").write_text(LAGGING)
            given = ("--python", made / "bin/python", "--override", CACHE / "override.txt")
            uv("pip", "install", *given, "harbor", "pytest", cwd=CACHE)
        if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
            _compose(CACHE / "docker/cli-plugins/docker-compose")
    return made


def _compose(plugin: Path) -> None:
    """Debian's Compose, from a release that has it as Docker's plugin, by the mirror that this machine's apt uses."""
    if plugin.exists():
        return
    scratch = CACHE / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    known = run("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
    mirror = next(line.split()[1] for line in known.splitlines() if line.split()[0] in ("bookworm", "trixie", "sid"))
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (scratch / "trixie.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: trixie\nComponents: main\nSigned-By: {keyring}\n"
    )
    options = [f"Dir::Etc::sourcelist={scratch}/trixie.sources", "Dir::Etc::sourceparts=/nonexistent",
               f"Dir::State::lists={scratch}/lists", f"Dir::Cache={scratch}/cache"]  # fmt: skip
    apt = ["apt-get", "-qq", *(word for one in options for word in ("-o", one))]
    run(*apt, "update")
    run(*apt, "download", "docker-compose", cwd=scratch)
    run("dpkg-deb", "-x", next(scratch.glob("docker-compose_*.deb")), scratch / "unpacked")
    plugin.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(scratch / "unpacked/usr/libexec/docker/cli-plugins/docker-compose", plugin)
    shutil.rmtree(scratch)


def environment(site: Path, home: Path) -> dict[str, str]:
    """What a process of Harbor's Python is started with: hc-ray as its wheel in ``site``."""
    kept = {**os.environ, "PYTHONPATH": str(site), "HC_RAY_HOME": str(home), "DOCKER_BUILDKIT": "0"}
    kept |= {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return kept | ({"DOCKER_CONFIG": str(CACHE / "docker")} if (CACHE / "docker").exists() else {})


def wheel_in(site: Path) -> None:
    given = ("--python", harbor_home() / "bin/python", "--no-deps", "--target", site)
    uv("pip", "install", *given, build_wheel(REPOSITORY, site.parent), cwd=site.parent)


def analysis_image() -> None:
    """The image in which Harbor analyses, by its own name; the tests' Python where no registry answers."""
    ask = "import harbor.analyze.analyzer as one; print(one.ANALYZE_TASK_TEMPLATE_DIR)"
    template = Path(run(harbor_home() / "bin/python", "-c", ask).strip())
    image = tomllib.loads((template / "task.toml").read_text())["environment"]["docker_image"]
    for way in (["image", "inspect"], ["pull", "-q"]):
        if subprocess.run(["docker", *way, image], capture_output=True).returncode == 0:
            return
    run("docker", "tag", "python:3.11-slim-bookworm", image)


READ = """
import json, pathlib, sys
from harbor.models.job.config import JobConfig
from harbor.models.job.result import JobResult
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult
job, told = pathlib.Path(sys.argv[1]), {}
JobConfig.model_validate_json((job / "config.json").read_text())
stats = JobResult.model_validate_json((job / "result.json").read_text()).stats
for path in job.glob("*/result.json"):
    TrialConfig.model_validate_json((path.parent / "config.json").read_text())
    result = TrialResult.model_validate_json(path.read_text()).model_dump(mode="json")
    whole = Trajectory.model_validate_json((path.parent / "agent/trajectory.json").read_text()).model_dump(mode="json")
    told[result["trial_name"]] = result | {"trajectory": whole}
print(json.dumps({"stats": stats.model_dump(mode="json"), "trials": told}))
"""


def read_job(job: Path) -> dict[str, Any]:
    """A job as Harbor's own models read it. Fails where they refuse a file."""
    told: dict[str, Any] = json.loads(run(harbor_home() / "bin/python", "-c", READ, job))
    return told
