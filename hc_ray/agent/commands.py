"""Finds reasons against a shell command: that it would end or cripple the sandbox (then it is not run), or waste time.

This is advice; the sandbox is the security. It cannot see what programs in other languages do, downloaded or decoded
scripts, or names read at run time. Such commands can only end the candidate's own sandbox.

The text is parsed by a few regular expressions; nothing is run. ``shlex`` with ``punctuation_chars`` is not enough: it
loses quoting, so that ``';'`` looks like an operator and ``'$(ls)'`` like a substitution, and it fails on apostrophes
in here-documents and comments. So quoted text is first replaced by characters without meaning to a shell."""

import copy
import itertools
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

_QUOTED = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
_BARE = {to: code for code, to in _QUOTED.items()}
DOCUMENT = "\n"
"""Prefix of a here-document's held text."""
_HELD = 0xF0000
"""The first of the characters that stand for held texts."""
_HOLDER = re.compile("([\U000f0000-\U000fffff])")
_NESTED = "[^()]"
for _ in range(4):
    _NESTED = rf"(?:[^()]|\({_NESTED}*+\))"
_DOLLAR = rf"[$<>]\({_NESTED}*+\)|`(?:\\.|[^\\`])*+`|\$\{{[^}}]*\}}|\$(?:\w+|[@*#?!$-])"
_PARTS = re.compile(
    rf"\\(?P<escaped>.)|\$?'(?P<single>[^']*)'?|\"(?P<double>(?:\\.|{_DOLLAR}|[^\"\\])*+)\"?|(?P<dollar>{_DOLLAR})|"
    r"(?P<comment>(?<![^\s;&|()])#[^\n]*)", re.DOTALL,
)  # fmt: skip
_IN_DOUBLE = re.compile(rf"\\(?P<escaped>[$`\"\\])|(?P<dollar>{_DOLLAR})|(?P<single>.)", re.DOTALL)
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"\\]?)(\w+)['\"]?(?=[\s;&|)>])([^\n]*\n)((?:.*\n)*?)\t*\2$", re.MULTILINE)
_TOKEN = re.compile(
    r"(?P<skipped>\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\w+\+?=\([^()]*\)|[\w:.-]+[ \t]*\([ \t]*\)|\bfunction[ \t]+\S+)|"
    r"(?P<redirection>\d*(?:<<<|&>>?|>>|>\||<>|[<>]&|<<-?|[<>]))|"
    r"(?P<operator>\|\||&&|;;&?|;&|\|&|[;&|\n()])|(?P<word>[^\s<>|&;()]+)"
)


def tokens(text: str, held: list[str]) -> Iterator[tuple[str, str]]:
    """The kind (``word``, ``redirection``, ``operator``) and text of every part of a script. Appends variables,
    substitutions and here-documents to ``held``; words contain placeholder characters for them, which ``pieces``
    resolves."""

    def hold(one: str) -> str:
        held.append(one)
        return chr(_HELD + len(held) - 1)

    def put_away(found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        if kind == "double":
            return _IN_DOUBLE.sub(put_away, found["double"])
        if kind == "dollar":
            return hold(found["dollar"])
        return found[kind].translate(_QUOTED) if kind != "comment" else ""

    def document(found: re.Match[str]) -> str:
        ran = "" if found[1] else "".join(one[0] for one in re.finditer(_DOLLAR, found[4]))
        return f" <<<{hold(DOCUMENT + found[4])}{found[3].rstrip(chr(10))}" + (f"\n: {ran}" if ran else "")

    text = _HOLDER.sub("", text.replace("\\\n", ""))
    while (shorter := _DOCUMENT.sub(document, text, count=1)) != text:
        text = shorter
    for found in _TOKEN.finditer(_PARTS.sub(put_away, text)):
        yield found.lastgroup or "", found[0]


def pieces(word: str, held: list[str]) -> Iterator[tuple[bool, str]]:
    """The parts of a word, in order: whether its value is known only to a shell, and its text."""
    for part in _HOLDER.split(word):
        if _HOLDER.match(part):
            yield True, held[ord(part) - _HELD]
        elif part:
            yield False, part.translate(_BARE)


_UNKNOWN = "\0"
_DEEPEST, _SCRIPTS, _VALUES, _LONGEST = 8, 100, 16, 10_000
_SHELL = re.compile(r"(?:ba|da|z|k|a)?sh\Z")
_KEYWORD = re.compile(r"(?:if|then|else|elif|while|until|do|\{|!|time|coproc|export|local|declare|readonly)\Z")
_WRAPPERS = {"sudo": "ugpCDhrtT", "doas": "u", "env": "uC", "nice": "n", "nohup": "", "timeout": "sk",
             "command": "", "exec": "a", "stdbuf": "ioe", "setsid": "", "busybox": "", "xargs": "nPLdasEI"}  # fmt: skip
"""Command that runs another one → its short options with a separate value."""
_ASSIGNMENT = re.compile(r"(\w+)\+?=(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?(\w*)(.*?)\}?\Z", re.DOTALL)
_SYSTEM = re.compile(r"/(?:(?:usr/)?(?:bin|lib|lib64|sbin)|dev|etc|proc|sys|usr)?\Z")
_SAFE_DEVICE = re.compile(r"/dev/(?:null|zero|full|std(?:in|out|err)|tty|fd|u?random|shm|pts|tcp|udp)(?:/|\Z)")
_STOPS = re.compile(r"(?:shutdown|reboot|halt|poweroff|systemctl .*\b(?:reboot|halt|poweroff)|(?:tel)?init [06])(?!\S)")
_FORMATS = re.compile(r"(?:mkfs(?:\..+)?|mke2fs|mkswap|wipefs|blkdiscard|shred|tee)\Z")
_TESTS = re.compile(r"-(?:i?name|i?path|type|empty|[acm](?:time|min)|newer|size|i?regex|user|perm)")
_WAITS = re.compile(r"(?:vi|n?vim|view|nano|pico|emacs|joe|less|more|most|h?top|watch)\b(?!.* -b)|tail .*-[fF]\b")
_BOMB = re.compile(r"(?<![\w:.])([\w:.]+)\s*\(\s*\)\s*\{(?:[^{}]*[\s;&|])?\1(?![\w.])[^;\n&|{}]*(?:&(?!&)|\|\s*\1)")
_STRINGS = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|<<.*", re.DOTALL)


def concerns(command: str, workdir: str, home: str = "") -> dict[str, bool]:
    """Objection to ``command``, in a sentence for a model → whether it must be refused; empty for a good command.
    ``home`` is as precious as the workdir; if not given, home is /root and is not."""
    shell = _Shell(workdir, command, home)
    shell.run(command)
    return shell.found


class _Shell:
    """Follows a script; substitutions and inner scripts are followed by further instances, which share ``found`` and
    the limit ``scripts``."""

    def __init__(self, workdir: str, command: str, home: str) -> None:
        self.workdir, self.command, self.home, self.cwd = workdir, command, home, workdir
        self.found: dict[str, bool] = {}
        self.variables: dict[str, list[str]] = {"HOME": [home or "/root"]}
        self.deep, self.scripts = 0, iter(range(_SCRIPTS))

    def run(self, script: str) -> str:
        """Follow a script; returns what it prints last, as far as its text tells."""
        held: list[str] = []
        left: list[tuple[str, dict[str, list[str]]]] = []
        words: list[str] = []
        into = stdin = said = ""
        if _BOMB.search(_STRINGS.sub("", script[:_LONGEST])):
            self._say("starts copies of itself without end. Start a fixed number of processes and wait for them.")
        for kind, text in itertools.chain(tokens(script, held), [("operator", "")]):
            if kind == "word":
                values = self._values(text, held)
                words += [] if into else values
                stdin += values[0] if into == "<<<" else ""
                self._device(values if ">" in into else [])
                into = ""
            elif kind == "redirection":
                into = text.lstrip("0123456789")
            elif kind == "operator":
                pattern = text == ")" and not left  # of ``case``
                said = "" if pattern else self._command(words, stdin)
                words, stdin = [], said if text in ("|", "|&") else ""
                if text == "(":
                    left.append((self.cwd, dict(self.variables)))
                elif text == ")" and left:
                    self.cwd, self.variables = left.pop()
        return said

    def _inner(self, script: str) -> str:
        if self.deep >= _DEEPEST or next(self.scripts, None) is None:
            return _UNKNOWN
        inner = copy.copy(self)
        inner.variables, inner.deep = dict(self.variables), self.deep + 1
        return inner.run(script)

    def _say(self, says: str, *, refused: bool = True) -> None:
        self.found[f"The command {says}"] = refused

    def _values(self, word: str, held: list[str]) -> list[str]:
        """The possible values of a word."""
        values, parts = [""], list(pieces(word, held))
        for asked, text in parts:
            values = [begun + one for begun in values for one in (self._asked(text) if asked else [text])]
            values = [one[:_LONGEST] for one in values[:_VALUES]]
        if len(parts) == 1 and parts[0][0] and not parts[0][1].startswith(DOCUMENT):
            values = [part for value in values for part in value.split() or [value]]
        return [re.sub(r"^~(?=/|\Z)", self.variables["HOME"][0], value) for value in values]

    def _asked(self, text: str) -> list[str]:
        """The values of a variable, of a substitution (what it prints), of a here-document."""
        if text.startswith(DOCUMENT):
            return [text.removeprefix(DOCUMENT)]
        if text[0] == "`" or (text[1] == "(" and text[:3] != "$(("):
            return [self._inner(text.strip("`") if text[0] == "`" else text[2:-1]).strip()]
        name, rest = _VARIABLE.match(text).groups()  # type: ignore[union-attr]
        if name in self.variables and not rest:
            return self.variables[name]
        # A variable that the command never sets is empty, since each command has its own shell.
        known = not name or name.isdigit() or rest or re.search(rf"(?<![\w$\{{-]){name}(?!\w)", self.command)
        return [self.cwd if name == "PWD" else _UNKNOWN if known else ""]

    def _command(self, words: list[str], stdin: str) -> str:
        """Judge one simple command; returns what it prints."""
        while words:
            name, arguments = posixpath.basename(words[0].rstrip("/")), words[1:]
            if found := _ASSIGNMENT.match(words[0]):
                self.variables[found[1]] = [found[2]]
            elif name in _WRAPPERS:
                while arguments and arguments[0].startswith("-"):
                    valued = arguments[0][-1] in _WRAPPERS[name] and not arguments[0].startswith("--")
                    arguments = arguments[1 + valued :]
                arguments = arguments[name == "timeout" :]
                if name == "xargs":
                    arguments, stdin = [*arguments, *stdin.split()], ""
            elif not _KEYWORD.match(name):
                break
            words = arguments
        else:
            return ""
        operands = [one for one in arguments if not one.startswith("-")]
        if name == "for" and operands:
            self.variables[operands[0]] = arguments[2:] or [_UNKNOWN]
        elif name in ("cd", "pushd"):
            self.cwd = self._path((operands or self.variables["HOME"])[0] or _UNKNOWN)
        elif name == "eval" or _SHELL.match(name):
            flag = next((at for at, one in enumerate(arguments, start=1) if re.match(r"-[a-zA-Z]*c\Z", one)), None)
            given = [stdin] if flag is None else arguments[flag : flag + 1]
            self._inner(" ".join(arguments if name == "eval" else given))
        self._judge(name, arguments, operands)
        said = {"echo": operands, "printf": operands, "pwd": [self.cwd], "cat": [stdin]}
        return " ".join(said.get(name, [_UNKNOWN]))

    def _judge(self, name: str, arguments: list[str], operands: list[str]) -> None:
        line = f"{name} {' '.join(arguments)}"
        if name == "kill" and {"1", "-1"} & set(arguments[len(arguments) > 1 and arguments[0][0:1] == "-" :]):
            self._say("kills every process of the sandbox. Kill only processes that you started, by their ids.")
        elif _STOPS.match(line):
            self._say("shuts down the sandbox. Nothing here needs that: restart a single service by its own command.")
        elif name == "mv" or (name == "rm" and any(re.match(r"-[a-zA-Z]*[rR]|--rec", one) for one in arguments)):
            self._removes(operands[:-1] if name == "mv" else operands)
        elif name == "find":
            self._find(arguments)
        elif _FORMATS.match(name):
            self._device(operands)
        elif name in ("cp", "dd"):
            self._device([one[3:] for one in arguments if one.startswith("of=")] if name == "dd" else operands[-1:])
        elif _WAITS.match(line):
            self._say(f"runs {name}, which waits for a person or never ends, until it is stopped.", refused=False)

    def _removes(self, paths: Sequence[str]) -> None:
        for path in filter(None, paths):
            folder, _, last = path.rstrip("/").rpartition("/")
            within = re.fullmatch(r"[*?.]*[*?][*?.]*", last) is not None
            whole = self._path((folder or ("/" if path.startswith("/") else ".")) if within else path)
            if within and whole == self.workdir != "/":
                self._say(f"removes everything in {whole}, your own work too. Name the files to remove.", refused=False)
            elif _SYSTEM.match(whole) or any(
                f"{kept}/".startswith(whole.rstrip("/") + "/") for kept in (self.workdir, self.home) if kept
            ):
                self._say(f"removes {whole} as a whole. Name the files to remove; a variable never set is empty.")

    def _find(self, arguments: list[str]) -> None:
        paths = list(itertools.takewhile(lambda one: one[:1] not in "-(!", arguments)) or ["."]
        if "-delete" in arguments and not any(map(_TESTS.match, arguments)):
            self._removes([f"{path}/*" for path in paths])
        rest = iter(arguments)
        for one in rest:
            if one in ("-exec", "-execdir"):
                self._inner(shlex.join(itertools.takewhile(lambda word: word not in (";", "+"), rest)))

    def _device(self, paths: Sequence[str]) -> None:
        for path in map(self._path, paths):
            if path.startswith("/dev/") and not _SAFE_DEVICE.match(path):
                self._say(f"writes over the device {path}. Write to a file instead, such as an image file.")

    def _path(self, path: str) -> str:
        return "/" + posixpath.normpath(posixpath.join(self.cwd, path)).lstrip("/")
