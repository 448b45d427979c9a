"""Which installed files belong to the packages that programs of the image came in, dependencies included: what a
program runs beside itself (a compiler its passes, git its helpers, perl its modules). Reads dpkg's database; where
there is none, every file of the system's own folders counts. Standard library only."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hc_ray.sandboxes.inside.grading.named import grounds, own_stem

_DATABASE = Path("/var/lib/dpkg")
_MERGED = re.compile(r"/usr(?=/(s?bin|lib[^/]*)(/|$))")
"""Packages name files by ``/bin`` or ``/usr/bin``, as they were built; both are one folder."""
_CODE = re.compile(r"(?s)(/usr)?/(s?bin|lib[^/]*|libexec|include)/.*|/usr/share/(perl[^/]*|python[^/]*|git-core)/.*")
_CODE_ELSEWHERE = re.compile(
    r"/usr/share/(debconf/.*|.*\.(py|pm|pl|sh|rb|[cm]?js|awk|go|[chs]|cmake|m4|php|jar|lua|tcl|jl))"
)
_SITE = re.compile(r"(?s).*/(site|dist)-packages(/.*)?")


def code_of(changed: Iterable[str], programs: Iterable[str]) -> list[str]:
    """Those of ``changed`` (canonical paths that the image has) that are code of the packages that ``programs`` (real
    paths) came in, or of packages that those depend on. Documentation, settings and data are none."""
    code = [path for path in changed if _CODE.fullmatch(path) or _CODE_ELSEWHERE.fullmatch(path)]
    if not code:
        return []
    if not (_DATABASE / "info").is_dir():
        return [path for path in code if not _SITE.fullmatch(path)]
    owners = _owners({*code, *programs})
    trusted = _dependencies({owner for path in programs for owner in owners.get(_merged(path), ())})
    return [path for path in code if not trusted.isdisjoint(owners.get(_merged(path), ()))]


def beside(changed: Iterable[str], programs: Mapping[str, Sequence[str]]) -> list[str]:
    """Those of ``changed`` that no package owns and that a program (its name: links on the way, last the real path)
    stands on, as one does that was unpacked or built: code in a folder of its name. Python's own are none."""
    stems = [stem for name, chain in programs.items() if (stem := own_stem(name, chain))]
    trees = [r"$", *(rf"(/usr)?(/local)?/lib[^/]*/{stem}[-.\d]*" for stem in stems), *map(re.escape, grounds(programs))]
    tree = re.compile(rf"(?s)({'|'.join(trees)})/.*")
    found = [path for path in changed if tree.fullmatch(path) and not _SITE.fullmatch(path)]
    owners = _owners(set(found)) if found else {}
    return [path for path in found if _merged(path) not in owners]


def _merged(path: str) -> str:
    return _MERGED.sub("", path, count=1)


def _owners(paths: set[str]) -> dict[str, set[str]]:
    wanted = {_merged(path) for path in paths}
    owners: dict[str, set[str]] = {}
    for listing in (_DATABASE / "info").glob("*.list"):
        try:
            lines = listing.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for path in wanted.intersection(map(_merged, lines)):
            owners.setdefault(path, set()).add(listing.stem.partition(":")[0])
    return owners


def _dependencies(packages: set[str]) -> set[str]:
    """The packages and all that they depend on, whichever alternative is installed."""
    needs: dict[str, set[str]] = {}
    try:
        paragraphs = (_DATABASE / "status").read_text(errors="replace").split("\n\n")
    except OSError:
        return packages
    for paragraph in paragraphs:
        name = re.search(r"^Package: *(\S+)", paragraph, re.M)
        lines = re.findall(r"^(?:Pre-)?Depends: *(.*)", paragraph, re.M)
        if name:
            plain = re.sub(r"\([^)]*\)|:any", "", ",".join(lines))
            needs[name[1]] = {word.strip() for word in re.split(r"[,|]", plain)}
    closure, pending = set[str](), list(packages)
    while pending:
        package = pending.pop()
        if package not in closure:
            closure.add(package)
            pending += needs.get(package, set())
    return closure
