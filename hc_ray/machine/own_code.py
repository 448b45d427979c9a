"""A user's own agents and selectors, named ``module:attribute``, and kept by the digest of their source.

The plan of a sweep settles once what a name stands for: the module, or the whole package that it lies in, is copied to
``own/<digest>`` below the data root, and the name becomes ``module:attribute@<digest>``. That name stands in configs,
keys and reports, so that a claim says what ran, and every process loads the copy, never the user's folder."""

import functools
import importlib
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from hc_ray.domain.config import OWN, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.value import digest_of
from hc_ray.machine.paths import data_root

MOST_BYTES = 4 << 20
"""Of a module or package."""
_OURS = ("hc_ray", "hc_ray_actors")


def settled(config: SweepConfig) -> SweepConfig:
    """The config with the digest in every name of one's own, each looked at. Raises ``ConfigError`` for a name that
    stands for nothing, or for something that does not fit."""
    agents = tuple(keep(name, agent_of) if OWN.fullmatch(name) else name for name in config.agents)
    if OWN.fullmatch(config.solver.selector):
        selector = keep(config.solver.selector, selector_of)
        config = config.model_copy(update={"solver": config.solver.model_copy(update={"selector": selector})})
    return config if agents == config.agents else config.model_copy(update={"agents": agents})


def agent_of(name: str) -> Any:
    """An agent (``search.own.Agent``). Raises ``ConfigError``."""
    found = load(name)
    solve = getattr(found, "solve", None)
    if not isinstance(found, type) or not hasattr(found, "self_tests") or not inspect.iscoroutinefunction(solve):
        raise ConfigError(f"agent {name}: must be a subclass of hc_ray.api.Agent with `async def solve(self, attempt)`")
    try:
        inspect.signature(solve).bind(None, None)
        return found()
    except Exception as error:
        raise ConfigError(f"agent {name}: must take no arguments, and its solve exactly one: {error}") from None


def selector_of(name: str) -> Any:
    """A selector: a function of the pass matrix and its tests that gives each candidate a score. Raises
    ``ConfigError``."""
    found = load(name)
    try:
        inspect.signature(found).bind(None, None)
    except (TypeError, ValueError):
        raise ConfigError(f"selector {name}: must be a function of two arguments (matrix, tests)") from None
    return found


def keep(name: str, look: Callable[[str], Any] | None = None) -> str:
    """The name with the digest of its source, of which a copy is made and ``look`` is taken. Raises ``ConfigError``."""
    module, attribute, before = _parts(name)
    files = _source(name, module.partition(".")[0])
    digest = _digest(files)
    if before not in (None, digest):
        raise ConfigError(f"{name}: the source has changed since; it is {module}:{attribute}@{digest} now")
    folder = _folder(digest)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        for path, data in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(data)
        try:
            made.rename(folder)
        except OSError:  # another sweep was faster
            shutil.rmtree(made)
    if look:
        look(f"{module}:{attribute}@{digest}")
    return f"{module}:{attribute}@{digest}"


@functools.cache
def load(name: str) -> Any:
    """What a name with a digest stands for. Raises ``ConfigError``."""
    module, attribute, digest = _parts(name)
    folder = _folder(digest or "")
    if not folder.is_dir() or _digest(_files(folder, folder)) != digest:
        raise ConfigError(f"{name}: this source is not on this machine, in {folder}")
    try:
        found = _imported(folder, module)
    except (Exception, SystemExit) as error:
        says = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(f"{name}: {module} cannot be imported from its own module or package: {says}") from None
    if not hasattr(found, attribute):
        raise ConfigError(f"{name}: {module} has no {attribute}")
    return getattr(found, attribute)


def _imported(folder: Path, module: str) -> Any:
    """The module as it lies in the folder, whatever this process has under that name. It finds no neighbour in the
    folder that it was copied from: those are no part of the digest."""
    top, path = module.partition(".")[0], list(sys.path)
    homes = [
        one for one in path if not one.endswith("-packages") and PathFinder.find_spec(top, [one or str(Path.cwd())])
    ]
    near = {name for name in sys.modules if name not in (*_OURS, "__main__") and _lies_in(sys.modules[name], homes)}
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in {top, *near}}
    sys.path[:] = [str(folder), *(one for one in path if one not in homes)]
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    finally:
        sys.path[:] = path
        sys.modules.update(before)


def _lies_in(module: Any, folders: list[str]) -> bool:
    """Whether a module or package lies directly in one of the folders."""
    file = Path(getattr(module, "__file__", None) or "/")
    return str((file.parent if file.name == "__init__.py" else file).parent) in folders


def _source(name: str, top: str) -> dict[str, bytes]:
    """The files of a module or package, by their paths in the folder that it is imported from."""
    if top == "__main__":
        raise ConfigError(f"{name}: is in the running script; move it to a separate module and import it from there")
    spec = None if top in _OURS else PathFinder.find_spec(top, [str(Path.cwd()), *sys.path])
    places = list(spec.submodule_search_locations or ()) if spec else []
    if spec is None or not (places or spec.origin):
        raise ConfigError(f"{name}: no module {top} in this folder or among the installed packages")
    root = Path(places[0] if places else spec.origin or "")
    files = _files(root, root.parent)
    if any(path.endswith("/task.toml") for path in files):
        raise ConfigError(f"{name}: the package {root} contains tasks, which an agent's package must not")
    return files


def _files(root: Path, parent: Path) -> dict[str, bytes]:
    found, size = {}, 0
    for folder, folders, names in os.walk(root) if root.is_dir() else [(str(root.parent), [], [root.name])]:
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for path in (Path(folder, one) for one in sorted(names)):
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise ConfigError(
                    f"{root}: contains more than {MOST_BYTES >> 20} MiB; move the agent to a separate package"
                )
            found[path.relative_to(parent).as_posix()] = path.read_bytes()
    return found


def _digest(files: dict[str, bytes]) -> str:
    return digest_of({path: sha256(data).hexdigest() for path, data in files.items()})[:12]


def _folder(digest: str) -> Path:
    return data_root() / "own" / digest


def _parts(name: str) -> tuple[str, str, str | None]:
    found = OWN.fullmatch(name)
    if found is None:
        raise ConfigError(f"{name}: must have the form module:name")
    return found["module"], found["attribute"], found["digest"]
