"""Files that an instruction names: full paths, relative paths, and bare names in code spans.

A token names a file by its form and by what the environment holds, never by the words around it. What may as well be a
directory, a route, a pattern or a placeholder is none."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hc_ray.domain.task import Environment
from hc_ray.spec.markdown import Block
from hc_ray.spec.spec import NamedFile

_KINDS = re.compile(
    r"7z|a|asc|asm|avi|avif|awk|bak|bash|bat|bib|bin|bmp|bz2|c|cc|cert|cfg|cfm|class|clj|cmake|coffee|conf|config|"
    r"cpp|cron|crt|cs|csr|css|csv|cu|cxx|dat|db|dbf|deb|diff|djvu|dll|dockerfile|docx|dot|elf|ex|exe|exs|f90|"
    r"fasta|fastq|ff|feather|fish|fs|gcode|geojson|gif|go|gpg|graphql|gz|h|h5|hdf5|hex|hpp|hs|htm|html|ico|ics|"
    r"img|in|ini|inp|ipynb|iso|jar|java|jl|jpeg|jpg|js|json|json5|jsonl|jsx|key|kt|ll|lock|log|lst|lua|m|map|md|"
    r"mjs|mk|ml|mod|mp3|mp4|mpg|ndjson|npy|npz|o|odt|onnx|out|parquet|patch|pcap|pcapng|pdb|pdf|pem|pgm|php|"
    r"pickle|pkl|pl|plist|png|po|ppm|pptx|properties|proto|ps1|pt|pth|pub|py|pyi|pyx|r|raw|rb|rds|regex|rpm|rs|"
    r"rst|rtf|rules|s|safetensors|sas|scala|sed|service|sh|so|sock|socket|sol|sql|sqlite|sqlite3|srt|stan|sum|sv|"
    r"svg|swift|tar|tcl|template|tex|tf|tfvars|tgz|thrift|timer|tiff|tmpl|toml|tpl|ts|tsv|tsx|ttf|txt|v|vb|vcf|"
    r"vhd|vhdl|vim|vtt|vue|wasm|wat|wav|webp|xls|xlsx|xml|xsd|xsl|xslt|xz|yaml|yml|zig|zip|zsh|zst",
    re.IGNORECASE,
)
"""File suffixes, to distinguish bare names from attributes and domains."""
_NO_FILE = frozenset({"d", "git", "com", "org", "net", "io", "local", "app"})
"""Suffixes of directories and domains."""
_NAMES = re.compile(
    r"Makefile|makefile|GNUmakefile|Dockerfile|Containerfile|Vagrantfile|Gemfile|Rakefile|Procfile|Jenkinsfile|"
    r"Pipfile|LICENSE|README|CHANGELOG|\.env|\.bashrc|\.profile|\.zshrc|\.bash_profile|\.gitignore|\.dockerignore|"
    r"\.gitattributes|\.gitconfig|\.netrc|\.npmrc|\.vimrc|\.editorconfig|\.htaccess|\.htpasswd|\.pgpass|crontab|"
    r"authorized_keys|known_hosts"
)
_PRODUCTS = frozenset({"node.js", "next.js", "vue.js", "react.js", "express.js", "d3.js", "console.log", "math.log"})
_NOT_HERE = ("/dev", "/proc", "/sys")
_ADDRESS = re.compile(
    r"(?<![\w+.-])[A-Za-z][\w+.-]{0,20}://\S*|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)[ \t|*]{1,9}/\S*"
)
_TOKEN = re.compile(r"[^\s`'\"()\[\],;|\u2018-\u201f]+")
_PATH = re.compile(r"(?:/|\.{1,2}/)?[\w.+@%=-]+(?:/[\w.+@%=-]+)*")
_SUFFIX = re.compile(r"[A-Za-z]\w{0,7}")
_LIBRARY = re.compile(r"\.so(?:\.\d+)+$")
_ENDS = ".,:;!?"
_PLACEHOLDER = re.compile(
    r"\.\.\.|//|(?:^|/)path/to/|YYYY|XXX|NNN|TIMESTAMP|_N\.|(?i:(?:^|/)(?:filename|file_?name|your[-_]\w+)\b)"
)


def read_files(blocks: Sequence[Block], environment: Environment) -> tuple[NamedFile, ...]:
    """All distinct files, in order of first mention."""
    reader = _Reader(blocks, environment)
    found: dict[str, NamedFile] = {}
    for token, code in reader.tokens:
        path, located = reader.resolved(token, code)
        if path and not reader.is_folder(path):
            shown = path.removeprefix(reader.workdir.rstrip("/") + "/")
            named = NamedFile(path=shown, exists=path in reader.present, located=located)
            if shown not in found or (located and not found[shown].located):
                found[shown] = named
    return tuple(found.values())


class _Reader:
    """The tokens of an instruction, beside the files of its environment."""

    def __init__(self, blocks: Sequence[Block], environment: Environment) -> None:
        self.workdir = posixpath.normpath(environment.workdir or "/")
        self.present = frozenset(posixpath.normpath(file) for file in environment.files)
        self.tokens = tuple(dict.fromkeys(_tokens(blocks)))
        said = [posixpath.normpath(token) for token, _ in self.tokens if token.startswith("/")]
        full_paths = dict.fromkeys([*sorted(self.present), *said])
        self._folders, self._brought = _above(full_paths), _above(self.present)
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        for path in full_paths:
            self._by_name[posixpath.basename(path)].append(path)

    def resolved(self, token: str, code: str) -> tuple[str, bool]:
        """The full path that a token names, and whether it is certain where it lies; an empty one for no file."""
        if token.startswith("/"):
            path = posixpath.normpath(token)
            return (path, True) if self._full(path, code) else ("", False)
        if code == "block":
            return "", False
        if "/" in token:
            if not self._relative(token, code):
                return "", False
            path = posixpath.normpath(posixpath.join(self.workdir, token))
            known = [path] if path in self.present else self._ending("/" + posixpath.normpath(token).lstrip("./"))
            return (known[0] if len(known) == 1 else path), True
        if code != "span" or not _is_name(token):
            return "", False
        known = self._ending("/" + token)
        if len(known) == 1:
            return known[0], True
        return ("", False) if known else (posixpath.join(self.workdir, token), False)

    def _full(self, path: str, code: str) -> bool:
        if path in self.present:
            return True
        if path == self.workdir or any(path == one or path.startswith(one + "/") for one in _NOT_HERE):
            return False
        if code == "block" and not self._inside(path):
            return False
        name = posixpath.basename(path)
        here = self._inside(path) or posixpath.dirname(path) in self._brought
        return here or _has_suffix(name) or _NAMES.fullmatch(name) is not None

    def _inside(self, path: str) -> bool:
        return self.workdir != "/" and path.startswith(self.workdir + "/")

    def _relative(self, token: str, code: str) -> bool:
        parts = [part for part in token.split("/") if part not in (".", "..")]
        name = parts[-1] if parts else ""
        if len(parts) > 1 and not token.startswith(".") and ("." in parts[0].lstrip(".") or parts[0] == "localhost"):
            return False  # a domain
        return _is_name(name) or (code == "span" and _has_suffix(name))

    def _ending(self, end: str) -> list[str]:
        """The environment's files that end so; where it has none, the full paths of the instruction that do."""
        ending = [path for path in self._by_name.get(posixpath.basename(end), ()) if path.endswith(end)]
        here = [path for path in ending if path in self.present]
        return here or ending

    def is_folder(self, path: str) -> bool:
        """Whether the environment has a file below it, or the instruction names one there."""
        return path not in self.present and path in self._folders


def _above(paths: Iterable[str]) -> set[str]:
    """Every directory above the paths, the root aside."""
    found: set[str] = set()
    for path in paths:
        while (path := posixpath.dirname(path)) not in ("/", "") and path not in found:
            found.add(path)
    return found


def _tokens(blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """Each token that has the form of a path, with where it stands: in a block of code, a span, or prose."""
    for block in blocks:
        if block.kind == "code":
            yield from ((token, "block") for token in _paths(without_addresses(block.text)) if token.startswith("/"))
        bare, at = without_addresses("".join(piece.text for piece in block.pieces)), 0
        for piece in block.pieces:
            where = "span" if piece.code else "prose"
            yield from ((token, where) for token in _paths(bare[at : at + len(piece.text)]))
            at += len(piece.text)


def without_addresses(text: str) -> str:
    """The text with blanks in the place of URLs and of what HTTP requests ask for: paths in those name no files."""
    return _ADDRESS.sub(lambda found: " " * len(found[0]), text)


def _paths(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match[0].rstrip(_ENDS)
        if token.startswith("*") or token.startswith("__"):
            token = token.strip("*_").rstrip(_ENDS)
        token = re.sub(r"^(?:-[\w-]*|[A-Z][A-Z0-9_]*)=(?=[./])|:\d+(?::\d+)?$", "", token)
        if text[match.end() : match.end() + 1] == "(" or len(token) > 200 or _PLACEHOLDER.search(token):
            continue
        if ("/" in token or ("." in token[1:] and "@" not in token)) and _PATH.fullmatch(token):
            yield token


def _has_suffix(name: str) -> bool:
    stem, dot, suffix = name.rpartition(".")
    if _LIBRARY.search(name):
        return True
    return bool(dot and stem.strip(".") and _SUFFIX.fullmatch(suffix)) and suffix.lower() not in _NO_FILE


def _is_name(name: str) -> bool:
    """Whether a bare name is certainly a file: neither an attribute (``a.b.c``) nor the end of another name."""
    if _NAMES.fullmatch(name):
        return True
    stem, _, suffix = name.rpartition(".")
    if not stem or stem[0] == "." or stem.replace(".", "").isdigit() or not (suffix.islower() or suffix.isupper()):
        return _LIBRARY.search(name) is not None
    attribute = len(suffix) == 1 and "." in stem
    return _KINDS.fullmatch(suffix) is not None and not attribute and name.lower() not in _PRODUCTS
