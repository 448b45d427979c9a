"""Where the image's own Pythons look for modules, and what a pytest session of theirs loads, found by running them:
only before anything of a submission is there, or where nothing of it that they run by themselves was carried. Standard
library only."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

MYPY = False
if MYPY:
    from typing import Any

_SECONDS = 100
BYTE_CODE = "/tests/.byte-code"
"""Where the tests' Pythons keep and find byte code, beside living processes of a candidate's."""
WAY_IN = "00_hc_witness.pth"
"""By which Pythons that do without the variables (-I, -E, a clean environment) find both. Of a folder's files of this
kind, each of which may import modules, it comes first."""
_SAYS = (
    "{lib}\nimport os, sys; "
    f"sys.pycache_prefix = {BYTE_CODE!r} if os.path.isdir({BYTE_CODE!r}) else getattr(sys, 'pycache_prefix', None)\n"
)
_LENDS = "import sys; sys.prefix == getattr(sys, 'base_prefix', '') and sys.path.insert(0, {pure!r})\n"
"""Not by PYTHONPATH, which would put our pytest before that of a virtual environment or of another Python."""
_NOTHING_NEAR = "import sys; sys.path[:] = [entry for entry in sys.path if entry]"
"""First of all, since ``-c`` looks for modules where it runs before it looks anywhere else."""
_FACTS = (
    _NOTHING_NEAR
    + """
import json, os, pkgutil, site, sys, sysconfig
sys.path[:] = [folder for folder in sys.path if folder != sys.argv[1]]
try:
    from importlib.util import find_spec
    has_pytest = find_spec("pytest") is not None
except ImportError:
    has_pytest = False
try:
    from ssl import get_default_verify_paths
    ssl = os.path.dirname(get_default_verify_paths().openssl_cafile)
except ImportError:
    ssl = ""
sites = list(getattr(site, "getsitepackages", list)())
user = [site.getusersitepackages()] if hasattr(site, "getusersitepackages") else []
paths = sysconfig.get_paths()
stdlib = [paths.get("stdlib"), paths.get("platstdlib"), sysconfig.get_config_var("DESTSHARED")]
stdlib = [folder for folder in stdlib if folder] + [os.path.dirname(os.__file__)]
library = sorted({module[1] for module in pkgutil.iter_modules(stdlib)})
print(json.dumps({
    "new": sys.version_info >= (3, 11), "pytest": has_pytest, "prefix": sys.prefix,
    "base": getattr(sys, "base_prefix", sys.prefix), "path": [p for p in sys.path if p], "sites": sites, "user": user,
    "stdlib": stdlib, "ssl": ssl, "library": library,
    "added": [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p],
}))
"""
)
_SESSION = (
    _NOTHING_NEAR
    + """
import json, sys
class Missed(object):
    names = set()
    def find_spec(self, name, path=None, target=None):
        self.names.add(name)
missed = Missed()
sys.meta_path.append(missed)
import site
site.main()
try:
    import pytest
except ImportError:
    import unittest
    unittest.main(module=None, argv=["unittest", "discover", sys.argv[1]], exit=False)
else:
    alone = ["-c", "/dev/null", "--rootdir=" + sys.argv[1], "--confcutdir=" + sys.argv[1]]
    pytest.main(["-q", "-rA", "--color=yes", "-p", "no:cacheprovider", *alone, sys.argv[1]])
def top(names):
    found = {}
    for name in {name.partition(".")[0] for name in names}:
        module = sys.modules.get(name)
        folders = list(getattr(module, "__path__", None) or [])
        file = getattr(module, "__file__", None)
        if name not in ("__main__", "test_probe", "__mp_main__"):
            found[name] = sorted(map(str, folders or ([file] if file else [])))
    return found
tried = {name for name in missed.names if "." not in name}
loaded = top(list(sys.modules))
for name in sys.argv[2:]:
    try:
        __import__(name)
    except BaseException:
        pass
mapped = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "/" in line}
imported = {name: paths for name, paths in top(list(sys.modules)).items() if name not in loaded}
late = sorted(name for name in missed.names - tried if "." not in name)
print("\\n" + json.dumps(
    {"loaded": loaded, "tried": sorted(tried), "imported": imported, "missed": late, "mapped": sorted(mapped)}))
"""
)
_TESTS = """def test_passes(tmp_path, capfd, caplog, recwarn, monkeypatch, request):
    assert [1] == [1]


def test_fails():
    assert [1] == [2]
"""
"""What it takes makes pytest load modules that it loads only once a test asks for such a thing."""


def facts(python: str, environment: dict[str, str], pure: str) -> dict[str, Any] | None:
    """What one interpreter says of itself, but for ``pure``, where pytest is lent from; None where it does not run (or
    is no Python)."""
    found = _answer([python, "-c", _FACTS, pure], environment)
    return found if found is not None and isinstance(found.get("path"), list) else None


def session(
    python: str, environment: dict[str, str], imports: list[str], compiled: list[str] | None = None
) -> dict[str, Any] | None:
    """A session of pytest (of unittest, where there is none) over one test that passes and one that fails, then
    ``imports`` by name.

    ``loaded``, ``imported``: top-level modules and where they lie; ``tried``, ``missed``: those that were looked for in
    vain; ``mapped``: files in memory. Start-up files are part of it. None where it did not come to an end.
    ``compiled``: keep the byte code of what lies below these folders (``byte_code.pack``)."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/test_probe.py", "w") as file:
            file.write(_TESTS)
        environment = {**environment, "PYTEST_DEBUG_TEMPROOT": folder}
        if compiled:
            environment = {**environment, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        found = _answer([python, "-S", "-c", _SESSION, folder, *imports], environment)
        if found is not None and compiled:
            from hc_ray.sandboxes.inside.grading import byte_code

            found["byte_code"] = byte_code.pack(f"{folder}/compiled", compiled)
        return found


def lend(folders: list[str], lib: str, pure: str = "") -> None:
    """Leave a .pth file in the first of a Python's folders that takes one, so that scripts which set PYTHONPATH anew
    find the witness in ``lib``, and this Python, which has no pytest, that in ``pure``; where none does, they turn up
    missing."""
    for folder in sorted(folders, key=os.path.isdir, reverse=True):  # one that is made would be a change of the image
        path = f"{folder}/{WAY_IN}"
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w") as file:
                file.write(_says(lib, pure))
            return


def _says(lib: str, pure: str) -> str:
    return _SAYS.format(lib=lib) + (_LENDS.format(pure=pure) if pure else "")


def leads_to(path: str, lib: str, pure: str) -> bool:
    """Whether a file says what ``lend`` wrote, and nothing else; a link does not, wherever it leads."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(1 << 12).decode(errors="replace") in (_says(lib, ""), _says(lib, pure))
    except OSError:
        return False


def _answer(command: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    try:
        done = subprocess.run(
            command, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
        answer = json.loads(done.stdout.decode(errors="replace").strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
