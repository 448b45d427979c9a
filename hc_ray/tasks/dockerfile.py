"""Reads a Dockerfile as far as a sandbox that builds no images must understand it: base, WORKDIR, ENV, COPY; and says
which steps are left to a builder, and what the classic builder cannot do at all."""

import json
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from hc_ray.domain.task import Copy
from hc_ray.domain.value import Value
from hc_ray.tasks.dockerfile_lines import Instruction, expand, read_lines, words

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What ``$PATH`` stands for: the images that tasks name set it so."""

_KNOWN = {
    *("FROM", "ARG", "ENV", "WORKDIR", "COPY", "ADD", "RUN", "USER", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL"),
    *("VOLUME", "STOPSIGNAL", "HEALTHCHECK", "SHELL", "ONBUILD", "MAINTAINER"),
}
_BUILDKIT_FLAGS = {
    "RUN": {"mount", "network", "security", "device"},
    "COPY": {"chmod", "link", "parents", "exclude"},
    "ADD": {"chmod", "link", "checksum", "keep-git-dir", "unpack", "exclude"},
}
_AUTOMATIC = re.compile(r"\$\{?(?:BUILD|TARGET)(?:PLATFORM|OS|ARCH|VARIANT)\b")
_ARCHIVE = re.compile(r"\.(?:tar|tgz|tbz2?|txz|tar\.(?:gz|bz2|xz))$", re.IGNORECASE)
_REMOTE = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|git@)", re.IGNORECASE)


class ParsedDockerfile(Value):
    """Of the last stage, and of the stages that it is built on with FROM."""

    base: str | None = None
    """The image that the last stage stands on; None for ``scratch`` or where there is no FROM."""
    bases: tuple[str, ...] = ()
    """Every image that a build needs."""
    workdir: str | None = None
    """None where no WORKDIR says it."""
    env: dict[str, str] = {}
    copies: tuple[Copy, ...] = ()
    run_steps: tuple[str, ...] = ()
    """What only a builder can do: RUN lines, copies out of other stages, downloads, archives to unpack."""
    user: str | None = None
    unsupported: str | None = None
    """Why the classic builder cannot build it, in one line; None if it can."""


class _State:
    """What the instructions of one stage have said so far."""

    def __init__(self, parent: "_State | None" = None) -> None:
        self.workdir: str | None = parent.workdir if parent else None
        self.env: dict[str, str] = dict(parent.env) if parent else {}
        self.copies: list[Copy] = list(parent.copies) if parent else []
        self.run_steps: list[str] = list(parent.run_steps) if parent else []
        self.user: str | None = parent.user if parent else None
        self.args: dict[str, str] = {}
        self.base: str | None = None

    def values(self) -> dict[str, str]:
        return {"PATH": STANDARD_PATH, **self.args, **self.env}


class _Reader:
    def __init__(self, directives: Mapping[str, str], files: Collection[str]) -> None:
        self.files = files
        self.global_args: dict[str, str] = {}
        self.names: list[str | None] = []
        self.states: list[_State] = []
        self.bases: list[str] = []
        self.unsupported: str | None = _directive_fault(directives)

    def refuse(self, line: int, reason: str) -> None:
        self.unsupported = self.unsupported or f"Dockerfile line {line}: {reason}"

    def read(self, instruction: Instruction) -> None:
        word, line = instruction.word, instruction.line
        if word not in _KNOWN:
            return self.refuse(line, f"unknown instruction {word[:40]}")
        flags = sorted(set(instruction.flags) & _BUILDKIT_FLAGS.get(word, set()))
        if flags:
            self.refuse(line, f"{word} --{flags[0]} needs BuildKit")
        if instruction.heredoc:
            self.refuse(line, f"{word} with a heredoc needs BuildKit")
        if word == "FROM":
            return self.begin_stage(instruction)
        if word == "ARG":
            return self.argument(instruction)
        if not self.states:
            return self.refuse(line, f"{word} before the first FROM")
        state = self.states[-1]
        if word == "RUN":
            state.run_steps.append(f"RUN {instruction.rest}")
        elif word == "ENV":
            self.environment(instruction, state)
        elif word == "WORKDIR":
            given = " ".join(words(expand(instruction.rest, state.values())))
            state.workdir = posixpath.normpath(posixpath.join(state.workdir or "/", given)).replace("//", "/")
        elif word == "USER":
            state.user = expand(instruction.rest, state.values()).strip() or None
        elif word in ("COPY", "ADD"):
            self.copy(instruction, state)

    def begin_stage(self, instruction: Instruction) -> None:
        text = " ".join([instruction.rest, *instruction.flags.values()])
        if _AUTOMATIC.search(text):
            self.refuse(instruction.line, "platform variables in FROM need BuildKit")
        given = words(expand(instruction.rest, self.global_args))
        if not given:
            return self.refuse(instruction.line, "FROM names no image")
        image = given[0]
        name = given[2].lower() if len(given) == 3 and given[1].upper() == "AS" else None
        earlier = [index for index, known in enumerate(self.names) if known == image.lower()]
        state = _State(self.states[earlier[-1]] if earlier else None)
        state.base = self.states[earlier[-1]].base if earlier else None if image == "scratch" else image
        if not earlier and image != "scratch" and image not in self.bases:
            self.bases.append(image)
        self.names.append(name)
        self.states.append(state)

    def argument(self, instruction: Instruction) -> None:
        values = {**self.global_args, **self.states[-1].values()} if self.states else self.global_args
        for word in words(expand(instruction.rest, values)):
            name, given, default = word.partition("=")
            if not self.states:
                self.global_args[name] = default
            elif given:
                self.states[-1].args[name] = default
            elif name in self.global_args:
                self.states[-1].args[name] = self.global_args[name]

    def environment(self, instruction: Instruction, state: _State) -> None:
        text = expand(instruction.rest, state.values())
        first = instruction.rest.split(None, 1)
        if first and "=" not in first[0]:
            # The old form: one name, then everything to the end of the line.
            name, value = [*text.split(None, 1), ""][:2]
            state.env[name] = " ".join(words(value))
            return
        for word in words(text):
            name, _, value = word.partition("=")
            if name:
                state.env[name] = value

    def copy(self, instruction: Instruction, state: _State) -> None:
        if instruction.heredoc:
            return
        whole = f"{instruction.word} {instruction.rest}"
        given = self.arguments(instruction, state)
        if len(given) < 2:
            return self.refuse(instruction.line, f"{instruction.word} needs a source and a destination")
        sources = tuple(given[:-1])
        if "from" in instruction.flags:
            source = instruction.flags["from"]
            if not source.isdigit() and source.lower() not in self.names:
                self.bases += [source] if source and source not in self.bases else []
            state.run_steps.append(f"{instruction.word} --from={source} {instruction.rest}")
        elif instruction.word == "ADD" and any(_REMOTE.match(source) or _ARCHIVE.search(source) for source in sources):
            if any(source.startswith("git@") or source.endswith(".git") for source in sources):
                self.refuse(instruction.line, "ADD of a git repository needs BuildKit")
            state.run_steps.append(whole)
        else:
            state.copies.append(Copy(sources=sources, destination=self.destination(given[-1], sources, state)))

    def arguments(self, instruction: Instruction, state: _State) -> list[str]:
        values = state.values()
        if instruction.rest.startswith("["):
            try:
                listed = json.loads(instruction.rest)
            except (ValueError, RecursionError):
                listed = None
            if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
                return [expand(item, values) for item in listed]
        return words(expand(instruction.rest, values))

    def destination(self, given: str, sources: tuple[str, ...], state: _State) -> str:
        """Absolute; with a slash at its end when it names a folder."""
        path = posixpath.normpath(posixpath.join(state.workdir or "/", given)).replace("//", "/")
        folder = given.endswith(("/", "/.", "/..")) or given in (".", "..", "") or len(sources) > 1
        folder = folder or any(self.is_folder(source) for source in sources)
        return path if not folder or path == "/" else path + "/"

    def is_folder(self, source: str) -> bool:
        path = posixpath.normpath("/" + source).lstrip("/")
        return path == "" or source.endswith("/") or any(name.startswith(f"{path}/") for name in self.files)


def _directive_fault(directives: Mapping[str, str]) -> str | None:
    """``# syntax=docker/dockerfile…`` is a comment to the classic builder; another frontend is another language."""
    if directives.get("escape", "\\") != "\\":
        return "Dockerfile line 1: an escape character of its own is for Windows images"
    syntax = directives.get("syntax")
    if syntax is None or re.fullmatch(r"(?:docker\.io/)?docker/dockerfile(?::\d[\w.]*|:latest)?(?:@\S+)?", syntax):
        return None
    return f"Dockerfile line 1: the frontend {syntax[:80]} needs BuildKit"


def parse_dockerfile(text: str, *, files: Collection[str] = ()) -> ParsedDockerfile:
    """``files``: paths relative to the build context, to tell folders from files. Raises nothing on any text."""
    instructions, directives = read_lines(text)
    reader = _Reader(directives, files)
    for instruction in instructions:
        reader.read(instruction)
    if not reader.states:
        return ParsedDockerfile(unsupported=reader.unsupported or "the Dockerfile has no FROM")
    last = reader.states[-1]
    return ParsedDockerfile(
        base=last.base,
        bases=tuple(reader.bases),
        workdir=last.workdir,
        env=last.env,
        copies=tuple(last.copies),
        run_steps=tuple(last.run_steps),
        user=last.user,
        unsupported=reader.unsupported,
    )


def placed(copies: Sequence[Copy], files: Collection[str]) -> tuple[str, ...]:
    """Where the copies put the files of a build context (paths relative to it), in order: absolute paths. What a
    ``.dockerignore`` leaves out is not looked at."""
    found: dict[str, None] = {}
    for copy in copies:
        for source in copy.sources:
            sought = posixpath.normpath("/" + source).lstrip("/")
            for file in files:
                inner = _inside(file, sought)
                if inner is not None:
                    end = inner or (posixpath.basename(file) if copy.destination.endswith("/") else "")
                    found[posixpath.join(copy.destination, end) if end else copy.destination] = None
    return tuple(found)


def absent(copies: Sequence[Copy], files: Collection[str]) -> tuple[str, ...]:
    """The sources of the copies, those with wildcards left out, that a build context of these files and links lacks."""
    found = []
    for source in dict.fromkeys(source for copy in copies for source in copy.sources):
        sought = posixpath.normpath("/" + source).lstrip("/")
        # What lies below a link to a folder is not among the files.
        there = (_inside(file, sought) is not None or sought.startswith(f"{file}/") for file in files)
        if not any(sign in source for sign in "*?[\\") and not any(there):
            found.append(source)
    return tuple(found)


def _inside(file: str, sought: str) -> str | None:
    """A file's path below the folder that a source names, "" where the source names the file itself, else None."""
    if not sought or file.startswith(f"{sought}/"):
        return file[len(sought) :].lstrip("/")
    for folder in (file, *map(str, PurePosixPath(file).parents)):
        if folder == sought or (
            any(sign in sought for sign in "*?[") and PurePosixPath("/", folder).match("/" + sought)
        ):
            return file[len(folder) :].lstrip("/")
    return None
