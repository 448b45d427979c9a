"""Files that programs read or load by themselves, by where they lie: settings, hooks and plugins that nobody names. New
ones are left behind, those that are there stay as the image has them. Pure."""

import posixpath
import re
from collections.abc import Collection

from hc_ray.blind.grading.contents import ENTRY_POINTS, Contents, parents
from hc_ray.blind.grading.image import Image

_LEVELS = "glibc-hwcaps|tls|haswell|xeon_phi|x86_64|avx512_1|sse2|i[3-6]86|atomics|nosegneg"
"""Folders that the C library prefers to the one that they lie in, by the processor."""
_SYSTEM = re.compile(
    r"(?s)(/usr(/local)?)?/etc/(ld\.so\.(preload|conf)|ld\.so\.conf\.d/.*|ld-musl-.*\.path|environment(\.d/.*)?|profile(\.d/.*)?"
    r"|bash\.bashrc|bashrc|zsh/.*|zshenv|python[^/]*/.*|pypy[^/]*/.*|perl/.*|pip\.conf|xdg/(pip|uv|git)/.*|uv/.*|wgetrc"
    r"|curlrc|gitconfig|npmrc|login\.defs|default/(su|locale)|sudo\.conf|sudoers(\.d/.*)?|host\.conf|magic(\.mime)?|gdb/.*|mavenrc)"
    r"|/etc/(ld\.so\.conf\.d|uv|profile\.d|environment\.d|sudoers\.d|perl|zsh)|/etc|/\.hc(/.*)?"
    r"|(.*/)?(sitecustomize|usercustomize)(\.[^/]+|/.*)?|.*/(site|dist)-packages/[^/]*\.(pth|egg-link)"
    r"|/(etc|usr)/(.*/)?openssl\.cnf"
)
_KEPT = re.compile(
    # What package managers keep for themselves, and would run or trust: archives, lists, settings, scripts.
    r"(?s)/etc/(ld\.so\.cache|debconf\.conf|apt(/.*)?|dpkg(/.*)?|apk(/.*)?|yum[^/]*(/.*)?|dnf(/.*)?|nsswitch\.conf"
    r"|pam\.conf|pam\.d(/.*)?|security(/.*)?)"
    r"|/var/lib/apt(/.*)?|/var/cache/(apt|ldconfig|debconf)(/.*)?|/var/lib/(apk|pam)(/.*)?"
    r"|/var/lib/dpkg/info/[^/]+\.(preinst|postinst|prerm|postrm|config|triggers)"
    r"|/etc/ca-certificates/update\.d/.*|/usr/share/python3/runtime\.d/.*|/usr/share/git-core(/.*)?"
    r"|/var/lib/dpkg/(triggers/.*|diversions(-old)?|statoverride(-old)?)"
    # What the C library, OpenSSL and binutils load by name or prefer to what lies beside it, and what programs say.
    rf"|(/usr(/local)?)?/lib[^/]*(/[^/]+)?/({_LEVELS}|gconv|audit|security|engines-[^/]+|ossl-modules|bfd-plugins)(/.*)?"
    r"|(/usr(/local)?)?/(lib[^/]*/gcc|[^/]+-linux-[^/]+)/(.*/)?specs"
    r"|(/usr(/local)?)?/lib[^/]*(/[^/]+)?/libnss_[^/]*|(/usr)?/lib/locale(/.*)?"
    r"|(/usr(/local)?)?/share/locale(-langpack)?(/.*)?"
)
IN_HOMES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".pdbrc", ".pdbrc.py", ".pythonrc", ".pydistutils.cfg", ".pypirc", ".netrc", ".curlrc", ".wgetrc",
    ".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml", ".condarc",
)  # fmt: skip
FOLDERS = ("/etc/profile.d", "/etc/pam.d", "/etc/security", "/etc/sudoers.d", "/etc/environment.d")
"""Of which every file takes part."""
_HOME = re.compile(
    rf"(?s){'|'.join(map(re.escape, IN_HOMES))}|\.(cargo/config(\.toml)?|pip(/.*)?|config/(pip|uv|git|python)(/.*)?"
    r"|cache/(pip|uv)(/.*)?|ssh/(config|rc|environment))"
)
_CONFIG = re.compile(r"\.config/([^/]+)")
"""Settings of a program, where it has them by its name."""
_OF_PYTHON = re.compile(r"pyvenv\.cfg|python[\d.]*\._pth|pybuilddir\.txt|pip\.conf")
"""What an interpreter beside it (or in a folder beside it) reads, and its pip."""
_OF_UV = re.compile(r"(?s)\.local/share/uv(/.*)?|\.config/uv(/.*)?|\.cargo/env|\.local/bin/env(\.fish)?")
_ABOVE_TESTS = re.compile(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.ini|setup\.(cfg|py)|pyproject\.toml|uv\.toml|\.python-versions?"
)
_OF_SYSTEM = re.compile(r"/(usr|etc|s?bin|lib[^/]*)/")
_REGISTERED = re.compile(r"(?s)/etc/alternatives(/.*)?")


class StartUp:
    """Tells start-up files of one grading: it depends on the homes, the working directory and what the tests run."""

    def __init__(self, image: Image, words: Collection[str]) -> None:
        """``words``: what scripts of the tests name."""
        homes, programs = {image.home, *image.homes}, image.programs
        run_in = {image.workdir, *image.modules_at}
        self._homes = re.compile(rf"(?s)(?:/root|/home/[^/]+|{'|'.join(map(re.escape, homes))})/(.*)")
        self._programs = set(programs)
        pythons = [file for chain in programs.values() for file in chain if "/python" in file or "/pypy" in file]
        self._beside_python = {posixpath.dirname(file) for file in pythons}
        self._beside_python |= {posixpath.dirname(folder) for folder in self._beside_python}
        self._above = {"/", *(above for folder in run_in for above in parents(folder) if above not in run_in)}
        self._uses_uv = not {"uv", "uvx"}.isdisjoint(words)
        loose = f"{image.workdir.rstrip('/')}/" if image.workdir != "/" else "//"
        self.named = {*image.unasked, *(path for path in image.named if not path.startswith(loose))}
        """Files that variables or scripts of the tests name, but for the candidate's own."""
        self._sites = {folder for python in image.pythons for folder in (*python.order, *python.installed)}
        self._settings = {f"{python.ssl}/openssl.cnf" for python in image.pythons if python.ssl}

    def kept(self, path: str, *, exists: bool) -> bool:
        """Whether the image's version stays in use without a word of blame: packages change such files honestly, and
        what they changed has no effect."""
        if _KEPT.fullmatch(path) or (exists and _REGISTERED.fullmatch(path)):
            return True
        own = self._homes.fullmatch(path)
        if own is None:
            return False
        of = _CONFIG.match(own[1])
        if of is not None and not self._programs.isdisjoint({of[1], of[1].removesuffix("rc")}):
            return True
        return _HOME.fullmatch(own[1]) is not None or (self._uses_uv and _OF_UV.fullmatch(own[1]) is not None)

    def is_hook(self, path: str) -> bool:
        """Whether the image's version stays in use, or none where it has none."""
        if path in self.named or path in self._settings or _SYSTEM.fullmatch(path):
            return True
        folder, name = posixpath.split(path)
        if folder in self._sites and name.endswith((".pth", ".egg-link")):
            return True
        if folder in self._beside_python and _OF_PYTHON.fullmatch(name):
            return True
        return folder in self._above and _ABOVE_TESTS.fullmatch(name) is not None

    def is_of_new(self, path: str, contents: Contents, exists: Collection[str]) -> bool:
        """Whether it extends a virtual environment that is new, too: but for the Python in there, nobody reads it."""
        folder, name = posixpath.split(path)
        own = re.fullmatch(r"(?s)(.+(?<!/\.local))/lib(64)?/python[\d.]+/site-packages", folder)
        if own is None or folder in self._sites or not name.endswith(".pth"):
            return False
        return own[1] in contents.folders and own[1] not in exists and f"{own[1]}/pyvenv.cfg" in contents.members

    def takes_part(self, path: str) -> bool:
        """Whether what lies in the system's folders there is the image's alone, one way or the other."""
        of_system = path in self._settings or _OF_SYSTEM.match(path) is not None
        return of_system and (self.is_hook(path) or self.kept(path, exists=True))


def searched(folder: str) -> str:
    """The folder in which the C library finds what lies in one that it prefers."""
    return re.sub(rf"(?s)/({_LEVELS})(/.*)?$", "", folder)


def announces_plugin(path: str, contents: Contents, modules: Collection[str]) -> bool:
    """Whether it makes pytest, or one of the ``modules``, load a plugin from wherever it is installed: an entry point
    of a distribution, in any folder (the working directory is on ``sys.path`` too), of a group that is called after
    who loads it. A link in the place of one could lead to any text, and what is too long to be read could hold any."""
    if posixpath.basename(path) != ENTRY_POINTS:
        return False
    if path in contents.links or path not in contents.texts:
        return True
    groups = re.findall(r"^\s*\[\s*(\w+)", contents.texts[path], re.M)
    return any(group == "pytest11" or not beginnings(group).isdisjoint(modules) for group in groups)


def beginnings(name: str) -> set[str]:
    """A name, and what of it comes before each of its underscores."""
    parts = name.split("_")
    return {"_".join(parts[:count]) for count in range(1, len(parts) + 1)}
