"""Results of the probe (``inside/grading/probe.py``) in a grading sandbox, and the comparison of two results."""

from collections.abc import Collection
from typing import Any

from hc_ray.domain.runner_paths import RUNNER_LIB
from hc_ray.domain.value import Value


class Python(Value):
    """One interpreter of the image, as reported by itself."""

    program: str = ""
    prefix: str = ""
    base: str = ""
    path: tuple[str, ...] = ()
    """``sys.path`` without the working directory."""
    sites: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    stdlib: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    """Folders of PYTHONPATH."""
    ssl: str = ""
    """The settings of its OpenSSL."""
    library: tuple[str, ...] = ()
    """Top-level modules of its standard library, except built-in ones."""

    @property
    def installed(self) -> frozenset[str]:
        """Where packages are installed to, folders included that are not there yet."""
        return frozenset({*self.sites, *self.user})

    @property
    def order(self) -> tuple[str, ...]:
        """Where modules are looked for, in order."""
        early, late = self._halves()
        return (*early, *self.user, *self.sites, *late)

    @property
    def closed(self) -> frozenset[str]:
        """The standard library, and whatever else of the interpreter's own comes before installed packages."""
        return frozenset({*self.stdlib, *self._halves()[0]} - {*self.added, *self.installed})

    def _halves(self) -> tuple[list[str], list[str]]:
        """What comes before installed packages, and what their ``.pth`` files add after them."""
        cut = next((index for index, folder in enumerate(self.path) if folder in self.installed), len(self.path))
        return list(self.path[:cut]), [folder for folder in self.path[cut:] if folder not in self.installed]


class Session(Value):
    """What an empty pytest session of one interpreter loads: top-level module → its locations, empty for built-in
    modules."""

    failed: bool = False
    loaded: dict[str, tuple[str, ...]] = {}
    imported: dict[str, tuple[str, ...]] = {}
    """Modules that the tests import besides, including what these load."""
    tried: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """Modules that those look for without finding them."""
    mapped: tuple[str, ...] = ()
    byte_code: str = ""
    """Of what it loads and imports (``inside/grading/byte_code.py``), where it was asked for."""


class Image(Value):
    """The probe of an untouched image, or of the same sandbox with a submission."""

    exists: tuple[str, ...] = ()
    """Members of the submission that already exist."""
    modes: dict[str, int] = {}
    """Permission bits of those, and of what the submission removed."""
    folders: tuple[str, ...] = ()
    """Those of them that are folders."""
    astray: tuple[str, ...] = ()
    """Links of the submission that lead to the tests, the logs, processes or devices."""
    canonical: dict[str, str] = {}
    """Path → its real path, if a folder on the way is a link."""
    bash: bool = True
    home: str = "/root"
    homes: tuple[str, ...] = ()
    """Homes of everybody who can log in."""
    workdir: str
    """The real path of the working directory."""
    path: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """Folders that may come before ``path``: the user's own, and those that the tests' scripts and start-up files of
    shells name."""
    modules_at: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Files that scripts and start-up files of shells source, and those that these source."""
    unasked: tuple[str, ...] = ()
    """Files that variables name: what shells and Pythons read by themselves."""
    programs: dict[str, tuple[str, ...]] = {}
    """Name → every link and file on the way to what it starts, first the entry on PATH."""
    grounds: tuple[str, ...] = ()
    """Folders of code beside programs that were unpacked or built, each in a folder of its own."""
    searched: dict[str, tuple[str, ...]] = {}
    """Where perl (``perl``) and compilers (``headers``, ``linked``) look for what they load by name, in order."""
    pytest: str = "none"
    pythons: tuple[Python, ...] = ()
    sessions: tuple[Session, ...] = ()
    libraries: dict[str, tuple[str, ...]] = {}
    """This and the following fields are probed only for submissions that reach beyond the working directory."""
    library_files: tuple[str, ...] = ()
    loader: tuple[str, ...] = ()
    cached: dict[str, tuple[str, ...]] = {}
    owned: tuple[str, ...] = ()
    """Changed or removed files that belong to the packages of what the tests resolve."""
    accounts: dict[str, str] = {}
    hidden: tuple[str, ...] = ()
    """New files that would be found before others of their name: headers, what a compiler links, modules of perl's, and
    libraries and programs of the packages of what the tests resolve."""

    def modules(self) -> set[str]:
        """Where the modules lie that sessions load, and the installed ones that the tests import: a module that is
        imported from elsewhere is the task's own, and may be what is to be changed."""
        found = {place for session in self.sessions for places in session.loaded.values() for place in places}
        ground = {folder for python in self.pythons for folder in (*python.closed, *python.installed)}
        imported = [place for session in self.sessions for places in session.imported.values() for place in places]
        return found | {place for place in imported if any(place.startswith(f"{folder}/") for folder in ground)}

    def standard(self, named: Collection[str] = ()) -> set[str]:
        """Top-level modules with files that an empty session loads, or the tests from an interpreter's own library and
        from what is installed, unless their file is ``named``: that is the candidate's to write."""
        own = {folder for python in self.pythons for folder in (*python.stdlib, *python.installed)}
        imported = [one for session in self.sessions for one in session.imported.items() if f"{one[0]}.py" not in named]
        found = {name for name, places in imported if any(place.rpartition("/")[0] in own for place in places)}
        return found | {name for session in self.sessions for name, places in session.loaded.items() if places}

    def library(self, named: Collection[str] = ()) -> set[str]:
        """Top-level modules of the interpreters' own libraries with files, unless their file is ``named``."""
        return {name for python in self.pythons for name in python.library if f"{name}.py" not in named}

    def trusted_files(self) -> set[str]:
        """Every file (and link on the way to one) that something of the tests resolves to."""
        found = {file for chain in self.programs.values() for file in chain}
        found |= {*self.library_files, *self.modules()}
        found |= {file for known in self.libraries.values() for file in known}
        return found | {file for session in self.sessions for file in session.mapped}


def differences(before: Image, after: Image) -> tuple[str, ...]:
    """What resolves differently with a submission in place: programs, libraries, Python search paths, modules of an
    empty session. Everything found before must be found at the same place; new names do not matter."""
    found = [name for name, chain in before.programs.items() if after.programs.get(name) != chain]
    found += [name for name, known in before.libraries.items() if after.libraries.get(name) != known]
    found += [name for name in before.cached if after.cached.get(name) not in (None, before.cached[name])]
    if before.pytest != after.pytest:
        found.append("python3")
    pythons = {python.program: _places(python) for python in after.pythons}
    for python in before.pythons:
        was, places = _places(python), pythons.get(python.program, {})
        found += [f"the Pythons' {key}" for key in was if was[key] != places.get(key)]
    sessions = {python.program: session for python, session in zip(after.pythons, after.sessions, strict=False)}
    for python, one in zip(before.pythons, before.sessions, strict=False):
        other = sessions.get(python.program, Session())
        if one.failed and other.failed:
            continue
        found += [name for name, places in one.loaded.items() if other.loaded.get(name) != places]
        found += [name for name in other.loaded if name not in one.loaded]
        found += [file for file in other.mapped if ".so" in file and file not in one.mapped]
    return tuple(sorted(set(found)))


def _places(python: Python) -> dict[str, Any]:
    # Between the two looks the witness's folder is named.
    fixed = [folder for folder in python.path if folder not in {*python.installed, RUNNER_LIB}]
    return {"path": fixed, "prefix": python.prefix, "base": python.base, "stdlib": python.stdlib, "sites": python.sites}
