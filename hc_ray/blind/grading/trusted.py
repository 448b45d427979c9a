"""The trusted set: what the tests resolve in the untouched image. A submission that changes, removes or shadows a part
of it is void; hooks that it adds or changes are left behind; all else travels, new packages included.

Trusted are: the programs that the tests name and those every test script starts (each link on the way too), the shared
libraries that they load, the Pythons with their standard library, the modules that a pytest session or the tests
themselves import, the code of the packages that all these came in with those that they depend on, and the folders of
programs that no package brought.

Installing is honest: files of new packages travel wherever they lie, ``/usr`` and ``~/.local`` included. So does an
upgrade of what the tests do not resolve. **An upgrade of what they do resolve (the C library, the interpreter, pytest)
is tampering**: nothing inside a sandbox can tell it from a forged copy. Never carried, since each could take part in a
session that it was not asked into: start-up files (``blind.startup``), links to the tests or to devices, anything in
the interpreter's own standard library or beside a trusted module, modules that a session looks for in vain, plugins of
pytest, and a new pytest, python or shell that a script of the tests starts although the image has none.

The rules name most attacks by path; behind them stands a second look (``blind.image.differences``): once the submission
is in, everything must still resolve to what it did."""

import posixpath
import re
from collections.abc import Collection, Sequence
from itertools import chain

from hc_ray.blind.grading.accounts import accounts_agree
from hc_ray.blind.grading.contents import Contents, begins, parents, top_module, without
from hc_ray.blind.grading.image import Image
from hc_ray.blind.grading.startup import StartUp, announces_plugin, searched
from hc_ray.blind.grading.test_dependencies import Mentions
from hc_ray.domain.value import Value

TRANSIENT = ("/proc", "/sys", "/dev", "/run", "/logs", "/tests", "/var/run")
"""Folders of which nothing is ever carried. Of ``/tmp`` a submission holds only what the task names."""
SYSTEM = ("/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
_DRIVER = re.compile(r"python[\d.]*|pytest|py\.test|pip[\d.]*|uv|uvx|pipx|tox|nox|coverage|sh|bash|dash|env")
"""Programs that a session of tests is started by."""
_RUNS_TESTS = {"pytest", "_pytest", "py"}
_PRIVATE = re.compile(r"(?s)(/usr(/local)?)?/(lib[^/]*/gcc|[^/]+-linux-[^/]+)/.*")
_LINKERS = ("real-ld", "collect-ld")
"""By these names gcc looks for a linker before it takes the usual one."""
_LISTED = 200
"""Paths of each kind that a verdict names."""


class Carried(Value):
    """A sorted submission."""

    tar: bytes
    left_behind: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()
    reaches_out: bool = False
    """Something outside of the working directory is carried, or a link: what is trusted has to be looked at again."""
    libraries: bool = False
    """Shared libraries are carried to where the loader looks: its cache has to be made anew."""


def sort_out(tar: bytes, contents: Contents, image: Image, mentioned: Mentions) -> Carried:
    """Split a submission into what is carried and what is not, and name what it tampered with."""
    if not tar:
        return Carried(tar=b"")
    sorter = _Sorter(contents, image, mentioned)
    fates = [(path, sorter.member(path)) for path in contents.members]
    removals = [(path, sorter.removal(path)) for path in contents.deleted]
    left = [path for path, fate in fates if fate == "left"]
    tampered = [path for path, fate in (*fates, *removals) if fate == "tampered"]
    removed = [path for path, fate in removals if fate == "carried"]
    dropped = {*left, *tampered}
    outside = [path for path in (*contents.members, *removed) if path not in dropped and sorter.reaches_out(path)]
    carried_tar = without(tar, dropped, removed, sorter.mode)
    return Carried(
        tar=carried_tar,
        left_behind=_listing(left),
        tampered=_listing(tampered),
        reaches_out=bool(outside) or not dropped.issuperset(contents.links),
        libraries=any(".so" in path and posixpath.dirname(sorter.real(path)) in image.loader for path in outside),
    )


def led_astray(contents: Contents, image: Image, after: Image, mentioned: Mentions) -> tuple[str, ...]:
    """What was carried and would not have been, had the folders that the tests run in lain where they lie with the
    submission in it: by a link of its own, they may lie anywhere."""
    where = {"workdir": after.workdir, "modules_at": after.modules_at}
    if where == {"workdir": image.workdir, "modules_at": image.modules_at}:
        return ()
    before, now = (_Sorter(contents, one, mentioned) for one in (image, image.model_copy(update=where)))
    return _listing(
        [path for path in contents.members if before.member(path) == "carried" and now.member(path) != "carried"]
    )


def _listing(paths: Sequence[str]) -> tuple[str, ...]:
    """Sorted, with only a count beyond a limit."""
    known = sorted(paths)
    more = len(known) - _LISTED
    return (*known[:_LISTED], f"and {more} more") if more > 0 else tuple(known)


def below(path: str, folders: Collection[str]) -> bool:
    """Whether a path is one of the folders, or in one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


class _Sorter:
    """The rules, with prepared lookup tables."""

    def __init__(self, contents: Contents, image: Image, mentioned: Mentions) -> None:
        self.contents, self.image, self.mentioned, self.workdir = contents, image, mentioned, image.workdir
        self.exists, self.was_folder = set(image.exists), set(image.folders)
        self.folders, self.astray = set(contents.folders), set(image.astray)
        self.start_up = StartUp(image, mentioned.shell_words)
        self.files = {*image.trusted_files(), *self.start_up.named}
        self.run_in = {self.workdir, *image.modules_at}
        self.early = self.run_in.union(*(python.added for python in image.pythons))
        self.above = {parent for path in self.files for parent in parents(path)}
        self.owned, self.homes = set(image.owned), {image.home, *image.homes}
        self.closed = {*chain(*(python.closed for python in image.pythons))}
        self.installed = {*chain(*(python.installed for python in image.pythons))}
        self.packages = {place for place in image.modules() if not place.endswith((".py", ".so", ".pyc"))}
        self.search = [*image.first, *image.path]
        self.looked_in = {*self.search, *image.loader, *self.closed, *chain(*image.searched.values())}
        self.looked_in.update(*(python.order for python in image.pythons))
        self.above_search = {parent for folder in self.looked_in for parent in parents(folder + "/x")}
        self.above_modes = self.above.union(self.above_search) - (self.homes - {image.home})
        self.modules = [
            ({**session.imported, **session.loaded}, session.loaded, python.order)
            for session, python in zip(image.sessions, image.pythons, strict=False)
        ]
        self.imported = {*chain(*(every for every, _, _ in self.modules))}
        self.standard, self.library = image.standard(mentioned.words), image.library(mentioned.words)
        missed = {*chain(*(session.missed for session in image.sessions))}.difference(mentioned.words)
        self.tried = missed.union(*(session.tried for session in image.sessions))

    def real(self, path: str) -> str:
        """Where it lies: a folder on the way may be a link."""
        return self.image.canonical.get(path, path)

    def is_loose(self, path: str) -> bool:
        """Whether it lies in the working directory, which is the candidate's."""
        return self.workdir != "/" and self.real(path).startswith(self.workdir.rstrip("/") + "/")

    def reaches_out(self, path: str) -> bool:
        """Whether it could change what is resolved to what."""
        return not self.is_loose(path) or below(self.real(path), self.looked_in)

    def mode(self, path: str, mode: int) -> int:
        """Nothing that is carried into the system's folders may be written by those who do not own it."""
        guarded = (at := self.real(path)) in self.above_search or below(at, SYSTEM) or below(at, self.looked_in)
        return mode & 0o7755 if guarded and not self.is_loose(path) else mode

    def member(self, path: str) -> str:
        """``carried``, ``left`` or ``tampered``."""
        real = self.real(path)
        if below(path, TRANSIENT) or below(real, TRANSIENT):
            return "left"
        if "__pycache__" in path.split("/") and path not in self.folders:
            return "left"  # whatever a module's text says, its byte code may do anything
        exists = path in self.exists
        if _is_witness(real) and not exists:
            return "tampered"
        if path in self.folders and (path in self.was_folder or not exists):
            return self._folder(real, exists)
        if exists:
            return self._change(path, real, self.contents.texts.get(path))
        return self._addition(path, real)

    def removal(self, path: str) -> str:
        real = self.real(path)
        transient = below(path, TRANSIENT) or below(real, TRANSIENT)
        byte_code = "__pycache__" in path.split("/") and not self.is_loose(path)
        return "left" if transient or byte_code else self._change(path, real, None)

    def _folder(self, real: str, exists: bool) -> str:
        """Folders carry modes. Those of folders that the image has stay, where anything of the system lies there."""
        if exists and (real in self.above_modes or below(real, (*SYSTEM, *self.image.grounds))):
            return "left"
        return "left" if self._is_closed(real) or self.start_up.kept(real, exists=exists) else "carried"

    def _change(self, path: str, real: str, text: str | None) -> str:
        """Classify a change or removal of something in the image."""
        if self.start_up.kept(real, exists=True) or self.start_up.is_hook(real):
            return "left"
        if self._is_trusted(real) or real in self.owned:
            return "tampered"
        if real in self.image.accounts and not accounts_agree(real, self.image.accounts[real], text):
            return "tampered"
        if self._is_plugin_of_image(real):
            return "tampered"
        unasked = self._is_settings(real) or announces_plugin(path, self.contents, self.imported)
        return "left" if path in self.astray or unasked else "carried"

    def _is_trusted(self, real: str) -> bool:
        """Whether a path is part of the trusted set, holds a part of it, or lies within a whole that is trusted."""
        if real in self.files or real in self.above or real in self.above_search:
            return True
        return self._is_closed(real)

    def _is_closed(self, real: str) -> bool:
        """Whether it lies in the interpreter's own library, or in a package that a session loads."""
        return below(real, self.packages) or (below(real, self.closed) and not below(real, self.installed))

    def _is_plugin_of_image(self, real: str) -> bool:
        """Whether it says of a distribution, whose module a session loads, what it is."""
        found = re.fullmatch(r"(?s).*/([A-Za-z0-9_.]+?)(-[^/]*)?\.(dist|egg)-info(/.*)?", real)
        names = {name.lower() for loaded in self.modules for name in loaded[1]}
        return found is not None and found[1].lower().replace("-", "_") in names

    def _addition(self, path: str, real: str) -> str:
        """Classify something that the image lacks."""
        folder, name = posixpath.split(real)
        hook = self.start_up.is_hook(real) and not self.start_up.is_of_new(path, self.contents, self.exists)
        if self.start_up.kept(real, exists=False) or hook or self._is_settings(real):
            return "left"
        if announces_plugin(path, self.contents, self.imported) or self._is_closed(real):
            return "left"
        # There the tests' files could be read or swallowed, or a link in the place of a folder be searched.
        if path in self.astray or real in self.above_search or self._is_above_tests(real):
            return "left"
        if (
            self._shadows_module(path, real)
            or self._shadows_program(folder, name)
            or self._shadows_library(folder, name)
        ):
            return "tampered"
        if self._is_missed_module(real) or self._comes_first(path, real, self.library):
            return "left"  # some of the library is loaded only once a function of another module needs it
        if self._is_driver(folder, name) or self._is_helper(real, name):
            return "left"
        return "left" if path in self.image.hidden else "carried"

    def _is_settings(self, real: str) -> bool:
        """Whether a program could read it unasked: a hidden file of a home, which no test names."""
        folder, name = posixpath.split(real)
        if not name.startswith(".") or folder not in self.homes or folder in self.run_in:
            return False
        return name[1:] not in self.mentioned.words or name[1:] in self.image.programs

    def _is_above_tests(self, real: str) -> bool:
        """Whether it is right below the root, where programs come on their way up from the tests, of which none names
        it: settings, a repository (in a hidden folder), a module (of tests that are a package, pytest begins there)."""
        top, _, rest = real[1:].partition("/")
        if "/" in (*self.homes, *self.run_in):
            return False
        if rest and top[0] != ".":
            return top in self.tried or (top in self.standard and begins(real, "/"))
        return top.lstrip(".") not in self.mentioned.words or top[1:] in self.image.programs

    def _shadows_program(self, folder: str, name: str) -> bool:
        chain = self.image.programs.get(name)
        if chain is None or folder not in self.search:
            return False
        at = posixpath.dirname(chain[0])
        return at not in self.search or self.search.index(folder) <= self.search.index(at)

    def _is_helper(self, real: str, name: str) -> bool:
        """Whether a compiler could start it in the place of the one on PATH: it looks in folders of its own first."""
        return (name in self.image.programs or name in _LINKERS) and _PRIVATE.fullmatch(real) is not None

    def _is_driver(self, folder: str, name: str) -> bool:
        starts = name in self.mentioned.shell_words and name not in self.image.programs
        return starts and folder in self.search and _DRIVER.fullmatch(name) is not None

    def _shadows_library(self, folder: str, name: str) -> bool:
        known = self.image.libraries.get(name)
        if known is None:
            return False
        return searched(folder) in self.image.loader or folder in {posixpath.dirname(file) for file in known}

    def _comes_first(self, path: str, real: str, names: Collection[str]) -> bool:
        """Whether a module of one of these names is found there before any other."""
        if path not in self.contents.links and not real.endswith((".py", ".pyc", ".so")):
            return False
        return any(top_module(real, folder) in names and begins(real, folder) for folder in self.early)

    def _shadows_module(self, path: str, real: str) -> bool:
        """Whether a module would be found before, or beside, one of its name that the tests stand on. What only the
        folders that they run in have is the candidate's."""
        if self._comes_first(path, real, self.standard):
            return True
        for every, _, order in self.modules:
            for index, folder in enumerate(order):
                if folder in self.run_in:
                    continue
                places = every.get(top_module(real, folder), ())
                if places and index <= min(_index(place, order) for place in places):
                    return True
        return False

    def _is_missed_module(self, real: str) -> bool:
        folders = {*self.run_in, *(folder for _, _, order in self.modules for folder in order)}
        names = {top_module(real, folder) for folder in folders}
        return not names.isdisjoint(self.tried) or (self.image.pytest != "own" and not names.isdisjoint(_RUNS_TESTS))


def _index(place: str, order: Sequence[str]) -> int:
    """Where in the order a module lies; before all of it where it comes from the folder that pytest is lent from."""
    folder = posixpath.dirname(place)
    return order.index(folder) if folder in order else -1


def _is_witness(path: str) -> bool:
    return any(part.split(".")[0] == "hc_witness" for part in path.split("/"))
