"""The import contracts of pyproject.toml hold, and each breaks when its wall is crossed.

The linter itself reads a copy of the tree twice: as it is, and with imports through walls in its files. Every wall is
then crossed by itself in the linter's own graph of imports, where a seed costs milliseconds."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract
from importlinter.domain.contract import Contract

from tests.fakes.processes import ran

configure()
CHECKOUT = Path(__file__).parents[2]
OPTIONS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]
KINDS: dict[str, type[Contract]] = {"layers": LayersContract, "protected": ProtectedContract,
                                    "forbidden": ForbiddenContract, "independence": IndependenceContract}  # fmt: skip
CONTRACTS: dict[str, dict[str, Any]] = {
    # As the linter's reader of pyproject.toml hands them on.
    contract["name"]: {name: str(value) if isinstance(value, bool) else value for name, value in contract.items()}
    for contract in OPTIONS["contracts"]
}
LAYERS = [[room.strip() for room in layer.split("|")] for layer in CONTRACTS["rooms of hc_ray"]["layers"]]
"""The rooms from top to bottom; those of one layer know nothing of each other."""
ROOMS = [room for layer in LAYERS for room in layer]
WALLS = ("sandboxes", "engines", "stores")
OWNERS = {name.partition(" ")[0]: [line.partition(" -> ")[0] for line in contract["ignore_imports"]]
          for name, contract in CONTRACTS.items() if name.endswith(" has one owner")}  # fmt: skip
"""The modules that may import a library: one, and of typer modules of one room."""


def modules() -> list[str]:
    """Every module of both packages, by its file."""
    found = []
    for root, package in ((CHECKOUT, "hc_ray"), (CHECKOUT / "actors", "hc_ray_actors")):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def seeds(*rooms: str, but: Collection[str] = ()) -> list[str]:
    """A module more in each of some rooms, or in all others."""
    return [f"hc_ray.{room}.seeded" for room in rooms or ROOMS if room not in but]


def upwards() -> Iterable[tuple[str, str]]:
    """From each room to those above it and beside it."""
    for number, layer in enumerate(LAYERS):
        above = [room for higher in LAYERS[: number + 1] for room in higher]
        for lower in layer:
            yield from product(seeds(lower), [f"hc_ray.{room}" for room in above if room != lower])


MODULES = modules()
ACTORS = [name for name in MODULES if name.startswith("hc_ray_actors")]
DRIVER, JOBS, INTEGRATIONS = PARTS = [f"hc_ray_actors.{part}" for part in ("driver", "jobs", "integrations")]
"""Of the actors, from bottom to top; all other modules are below them."""
BELOW = [name for name in ACTORS if name != "hc_ray_actors" and not name.startswith(tuple(PARTS))]
DOOR = "hc_ray_actors.verifiers"
"""Who alone opens blind."""
OUTSIDE = [name for name in MODULES if not name.startswith("hc_ray.sandboxes.inside")
           and name not in ("hc_ray", "hc_ray.sandboxes")]  # fmt: skip
CROSSINGS: dict[str, list[tuple[str, str]]] = {
    "rooms of hc_ray": [*upwards()],
    "walls are entered by actors and the command line alone": [
        *product(["hc_ray", *seeds(but=("cli", *WALLS))],
                 [next(name for name in MODULES if name.startswith(f"hc_ray.{wall}.")) for wall in WALLS]),
    ],
    "only the command line knows the actors": [
        *product(seeds(but=("cli",)), ("hc_ray_actors", "hc_ray_actors.driver.sweep")),
    ],
    "actors know nothing of the command line": [
        *product(("hc_ray_actors", "hc_ray_actors.seeded"), ("hc_ray.cli", "hc_ray.cli.app", "hc_ray.cli.options")),
    ],
    "actors know nothing of the driver, and the driver nothing of jobs": [
        *product(BELOW, PARTS), *product([f"{DRIVER}.seeded"], (JOBS, INTEGRATIONS)), (f"{JOBS}.seeded", INTEGRATIONS),
    ],
    "blind has one door": [
        *product([*seeds(but=("blind",)), "hc_ray_actors.seeded", *(one for one in ACTORS if one != DOOR)],
                 ["hc_ray.blind"]),
        *product([*seeds("search", "cli"), "hc_ray_actors.trials", "hc_ray_actors.driver.sweep"],
                 [name for name in MODULES if name.startswith("hc_ray.blind.")]),
    ],
    "what runs inside a sandbox imports nothing of hc-ray": [
        *product(("hc_ray.sandboxes.inside.seeded", "hc_ray.sandboxes.inside.suites.seeded"), OUTSIDE),
    ],
    "the two sandboxes know nothing of each other": [
        ("hc_ray.sandboxes.docker.seeded", "hc_ray.sandboxes.bwrap"),
        ("hc_ray.sandboxes.bwrap.seeded", "hc_ray.sandboxes.docker"),
        ("hc_ray.sandboxes.docker.place", "hc_ray.sandboxes.bwrap.sandbox"),
        ("hc_ray.sandboxes.bwrap.sandbox", "hc_ray.sandboxes.docker.connection"),
    ],
    "the agent knows no suite": [
        *product(("hc_ray.agent.seeded", "hc_ray.agent.loop", "hc_ray.agent"), ["hc_ray.domain.suite"]),
    ],
    **{f"{library} has one owner": [*product([*seeds(), "hc_ray_actors.seeded", "hc_ray",
                                              f"{owners[0].rpartition('.')[0]}.seeded"], [library])]
       for library, owners in OWNERS.items()},
}  # fmt: skip
"""Contract → imports (importer, imported) each of which breaks it."""


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages and their contracts, which a test may break."""
    place = tmp_path_factory.mktemp("contracts")
    ignored = shutil.ignore_patterns("__pycache__", "*.xz", "*.so")
    shutil.copytree(CHECKOUT / "hc_ray", place / "hc_ray", ignore=ignored)
    shutil.copytree(CHECKOUT / "actors", place / "actors", ignore=ignored)
    shutil.copy(CHECKOUT / "pyproject.toml", place)
    return place


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of the tree as it is, as the linter sees them."""
    external = OPTIONS["include_external_packages"]
    return grimp.build_graph(*OPTIONS["root_packages"], include_external_packages=external, cache_dir=None)


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Runs import-linter on the copy; the copy's packages come before the installed ones."""
    env = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'actors'}", "NO_COLOR": "1", "COLUMNS": "200"}
    return ran(Path(sys.executable).parent / "lint-imports", "--no-cache", cwd=tree, env=env)


def keeps(graph: grimp.ImportGraph, name: str, *crossing: str) -> bool:
    """Whether a contract is kept where one module more imports another; one name alone is a module without imports."""
    seen = deepcopy(graph)
    for module in crossing:
        if module not in seen.modules:
            seen.add_module(module, is_squashed=module.partition(".")[0] not in OPTIONS["root_packages"])
    if len(crossing) == 2:
        importer, imported = crossing
        seen.add_import(importer=importer, imported=imported, line_number=1, line_contents=f"import {imported}")
    return bool(KINDS[CONTRACTS[name]["type"]](name, OPTIONS, CONTRACTS[name]).check(seen, verbose=False).kept)


def test_the_tree_as_it_is_keeps_every_contract(tree: Path, graph: grimp.ImportGraph) -> None:
    result = lint_imports(tree)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken." in result.stdout and all(keeps(graph, name) for name in CONTRACTS)


def test_every_contract_is_broken_by_some_seed() -> None:
    assert CROSSINGS.keys() == CONTRACTS.keys() and all(CROSSINGS.values())


@pytest.mark.parametrize("name", CROSSINGS)
def test_an_import_through_a_wall_breaks_the_contract_of_that_wall(graph: grimp.ImportGraph, name: str) -> None:
    assert [" -> ".join(crossing) for crossing in CROSSINGS[name] if keeps(graph, name, *crossing)] == []


@pytest.mark.parametrize("module", ["hc_ray.seeded", "hc_ray.solve", "hc_ray.utils"])
def test_nothing_stands_directly_in_hc_ray_but_its_rooms(graph: grimp.ImportGraph, module: str) -> None:
    assert not keeps(graph, "rooms of hc_ray", module)


def test_a_library_has_one_owner_and_typer_modules_of_one_room() -> None:
    assert OWNERS.keys() >= {"ray", "docker", "httpx", "mlflow", "pyarrow", "xllamacpp", "scipy", "optuna", "rich"}
    typer = OWNERS["typer"]
    assert all(one.startswith("hc_ray.cli.") and "*" not in one for one in typer)
    assert all(len(set(owners)) == 1 or owners is typer for owners in OWNERS.values())


SEEDS = (
    ("hc_ray/domain/seeded_low.py", "import hc_ray.tasks.dockerfile", "rooms of hc_ray"),
    ("hc_ray/climb/seeded_blind.py", "def late():\n    from hc_ray import blind", "blind has one door"),
    ("hc_ray/sandboxes/bwrap/seeded_other.py", "from ..docker import place",
     "the two sandboxes know nothing of each other"),
    ("hc_ray/agent/seeded_suite.py", "import typing\nif typing.TYPE_CHECKING:\n    import hc_ray.domain.suite",
     "the agent knows no suite"),
    ("hc_ray/cli/app.py", "import docker", "docker has one owner"),
    ("hc_ray/engines/seeded_httpx.py", "from httpx import Client", "httpx has one owner"),
)  # fmt: skip
"""A file of the tree, a line more in it, and the contract that this breaks: every way to write an import."""


def test_the_linter_reads_each_broken_rule_in_the_files(tree: Path) -> None:
    for module, line, _ in SEEDS:
        with (tree / module).open("a") as file:
            file.write(f"\n{line}\n")
    result = lint_imports(tree)
    assert result.returncode != 0
    for module, _, name in SEEDS:
        assert f"{name} BROKEN" in result.stdout, result.stdout + result.stderr
        told = result.stdout.split(f"\n{name}\n", 1)[1].split("\n\n\n", 1)[0]
        assert Path(module).stem in told, f"{name}: {told}"
