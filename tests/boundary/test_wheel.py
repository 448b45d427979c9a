import os
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.fakes.processes import ran

CHECKOUT = Path(__file__).parents[2]
DATASET = "seeded_set"


def uv(*arguments: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs uv, wherever scripts/install found or put it; no Python is ever downloaded."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    folders = [Path.home() / ".local/bin", Path(site.getuserbase()) / "bin", data / "hc-ray/uv/bin"]
    program = shutil.which("uv") or shutil.which("uv", path=os.pathsep.join(map(str, folders)))
    assert program, "uv is missing: scripts/install brings it"
    env = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    env.pop("VIRTUAL_ENV", None)
    return ran(program, *arguments, cwd=cwd, env=env, timeout=540, check=check)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with one more dataset whose files are known."""
    root = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("hc_ray", "actors", "configs"):
        shutil.copytree(CHECKOUT / folder, root / folder, ignore=ignored, symlinks=True)
    for file in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, root)
    task = root / "configs/tasks" / DATASET / "one"
    for name, text in {
        "task.toml": "",
        "instruction.md": "Write it.",
        "environment/Dockerfile": "FROM scratch\n",
        "environment/tests/kept.txt": "an environment may hold a folder of this name",
        "tests/test.sh": "#!/bin/sh\n",
        "tests/deep/data.txt": "hidden",
        "solution/solve.sh": "#!/bin/sh\n",
        "tests/__pycache__/stale.pyc": "",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    (task / "tests/test.sh").chmod(0o755)
    shared = root / "configs/tasks" / DATASET / "shared-tests" / "helper.py"
    shared.parent.mkdir()
    shared.write_text("hidden too")
    (task / "tests/helper.py").symlink_to("../../shared-tests/helper.py")
    return root


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree."""
    out = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", out, cwd=source)
    return next(out.glob("*.whl"))


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_a_wheel_holds_both_packages_and_the_configs(wheel: Path) -> None:
    held = names(wheel)
    assert "hc_ray/cli/app.py" in held and "hc_ray_actors/__init__.py" in held and "hc_ray/_configs/demo.yaml" in held
    assert any(name.startswith("hc_ray/_configs/models/") for name in held)
    assert any(name.startswith("hc_ray/_configs/tasks/starter/") for name in held)
    assert "hc_ray/_configs/tasks/starter.sealed.tar.gz" in held
    assert {"hc_ray/agent/shipped_skills/python-library/SKILL.md", "hc_ray/tasks/benchmark.xz"} <= set(held)


def test_a_wheel_shows_no_test_and_no_solution_outside_the_sealed_archives(wheel: Path) -> None:
    tasks = [Path(name).parts for name in names(wheel) if name.startswith("hc_ray/_configs/tasks/")]
    exposed = [parts for parts in tasks if {"tests", "solution", "shared-tests"} & {*parts[4:6]}]
    assert tasks and exposed == []


def test_a_sealed_archive_holds_what_was_taken_out_under_the_same_names(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"hc_ray/_configs/tasks/{DATASET}.sealed.tar.gz", tmp_path)
        public = {name for name in archive.namelist() if f"/{DATASET}/" in name}
    with tarfile.open(tmp_path / f"hc_ray/_configs/tasks/{DATASET}.sealed.tar.gz") as sealed:
        assert all(member.isreg() for member in sealed.getmembers())
        members = {member.name: member.mode for member in sealed.getmembers()}
    plain = ("one/solution/solve.sh", "one/tests/deep/data.txt", "one/tests/helper.py")
    assert members == {**dict.fromkeys(plain, 0o644), "one/tests/test.sh": 0o755}
    shown = ("task.toml", "instruction.md", "environment/Dockerfile", "environment/tests/kept.txt")
    assert public == {f"hc_ray/_configs/tasks/{DATASET}/one/{name}" for name in shown}


def test_an_sdist_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    uv("build", "--quiet", "--out-dir", tmp_path, cwd=source)
    assert next(tmp_path.glob("*.whl")).read_bytes() == wheel.read_bytes()


@pytest.mark.slow
def test_a_wheel_installed_into_an_empty_environment_runs_and_finds_its_configs(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    uv("venv", "--quiet", "--python", sys.executable, venv, cwd=tmp_path)
    install = ("pip", "install", "--quiet", "--python", venv / "bin/python")
    pinned = tmp_path / "pinned.txt"
    exported = uv("export", "--quiet", "--frozen", "--no-dev", "--no-hashes", "--no-emit-project", cwd=CHECKOUT).stdout
    pinned.write_text(exported)
    arguments = (*install, "--constraint", pinned, wheel)
    if uv(*arguments, "--offline", cwd=tmp_path, check=False).returncode != 0:
        uv(*arguments, cwd=tmp_path)
    assert "sweep" in ran(venv / "bin/hc-ray", "--help", cwd=tmp_path, check=True).stdout
    listed = uv("pip", "list", "--format=freeze", "--python", venv / "bin/python", cwd=tmp_path).stdout.lower()
    assert "hc-ray==" in listed and "llama-cpp-python" not in listed
    asks = "from hc_ray.machine.paths import configs_dir; print(configs_dir())"
    configs = ran(venv / "bin/python", "-c", asks, cwd=tmp_path, check=True).stdout.strip()
    assert Path(configs).is_relative_to(venv) and (Path(configs) / "demo.yaml").is_file()
