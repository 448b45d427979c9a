"""Reads a Dockerfile as far as a sandbox that cannot build images needs it: base, WORKDIR, ENV, COPY. Also lists the
steps that need a builder, and what the classic builder does not support."""

import contextlib
import json
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from hc_ray.domain.task import Copy
from hc_ray.domain.value import Value
from hc_ray.tasks.dockerfile_lines import Instruction, expand, read_lines, words

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The value of ``$PATH``, as set in the images that tasks use."""

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


class Stage(Value):
    """A stage, merged with the stages that it builds on by FROM."""

    base: str | None = None
    """Its base image; None for ``scratch`` or without a FROM."""
    workdir: str | None = None
    """None without a WORKDIR."""
    env: dict[str, str] = {}
    copies: tuple[Copy, ...] = ()
    run_steps: tuple[str, ...] = ()
    """Steps that need a builder: RUN lines, copies from other stages, downloads, archives to unpack."""
    volumes: tuple[str, ...] = ()
    """Paths that VOLUME names."""
    user: str | None = None


class ParsedDockerfile(Stage):
    """The last stage, and facts about the whole file."""

    bases: tuple[str, ...] = ()
    """All images that a build needs."""
    unsupported: str | None = None
    """Why the classic builder cannot build it, in one line; None if it can."""


class _Reader:
    """Reads one instruction after another; ``args`` and the last of ``stages`` belong to the current stage."""

    def __init__(self, directives: Mapping[str, str], files: Collection[str]) -> None:
        self.files = files
        self.global_args: dict[str, str] = {}
        self.args: dict[str, str] = {}
        self.names: list[str | None] = []
        self.stages: list[Stage] = []
        self.bases: list[str] = []
        self.unsupported: str | None = _directive_fault(directives)

    def say(self, **said: Any) -> None:
        """Update the current stage."""
        self.stages[-1] = self.stages[-1].model_copy(update=said)

    def expanded(self, text: str) -> str:
        """Expand the current stage's variables in a text."""
        return expand(text, {"PATH": STANDARD_PATH, **self.args, **self.stages[-1].env})

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
        if not self.stages:
            return self.refuse(line, f"{word} before the first FROM")
        if word == "RUN":
            self.left_to_a_builder(f"RUN {instruction.rest}")
        elif word == "ENV":
            self.environment(instruction.rest)
        elif word == "WORKDIR":
            self.say(workdir=posixpath.join("/", self.path(" ".join(words(self.expanded(instruction.rest))))))
        elif word == "USER":
            self.say(user=self.expanded(instruction.rest).strip() or None)
        elif word == "VOLUME":
            self.say(volumes=(*self.stages[-1].volumes, *self.arguments(instruction.rest)))
        elif word in ("COPY", "ADD") and not instruction.heredoc:
            self.copy(instruction)

    def left_to_a_builder(self, step: str) -> None:
        self.say(run_steps=(*self.stages[-1].run_steps, step))

    def path(self, given: str) -> str:
        """Make a path absolute by the current stage's workdir; without a WORKDIR, a relative one stays relative."""
        return posixpath.normpath(posixpath.join(self.stages[-1].workdir or "", given)).replace("//", "/")

    def begin_stage(self, instruction: Instruction) -> None:
        text = " ".join([instruction.rest, *instruction.flags.values()])
        if _AUTOMATIC.search(text):
            self.refuse(instruction.line, "platform variables in FROM need BuildKit")
        given = words(expand(instruction.rest, self.global_args))
        if not given:
            return self.refuse(instruction.line, "FROM names no image")
        image = given[0]
        name = given[2].lower() if len(given) == 3 and given[1].upper() == "AS" else None
        earlier = [stage for stage, known in zip(self.stages, self.names, strict=True) if known == image.lower()]
        if not earlier and image != "scratch" and image not in self.bases:
            self.bases.append(image)
        self.names.append(name)
        self.stages.append(earlier[-1] if earlier else Stage(base=None if image == "scratch" else image))
        self.args = {}

    def argument(self, instruction: Instruction) -> None:
        stage = {"PATH": STANDARD_PATH, **self.args, **self.stages[-1].env} if self.stages else {}
        for word in words(expand(instruction.rest, {**self.global_args, **stage})):
            name, given, default = word.partition("=")
            if not self.stages:
                self.global_args[name] = default
            elif given:
                self.args[name] = default
            elif name in self.global_args:
                self.args[name] = self.global_args[name]

    def environment(self, rest: str) -> None:
        text = self.expanded(rest)
        if rest and "=" not in rest.split(None, 1)[0]:
            # The old form: a name, then everything up to the end of the line.
            name, value = [*text.split(None, 1), ""][:2]
            given = {name: " ".join(words(value))}
        else:
            given = dict(word.partition("=")[::2] for word in words(text) if not word.startswith("="))
        self.say(env={**self.stages[-1].env, **given})

    def copy(self, instruction: Instruction) -> None:
        whole = f"{instruction.word} {instruction.rest}"
        given = self.arguments(instruction.rest)
        if len(given) < 2:
            return self.refuse(instruction.line, f"{instruction.word} needs a source and a destination")
        sources = tuple(given[:-1])
        if "from" in instruction.flags:
            source = instruction.flags["from"]
            if not source.isdigit() and source.lower() not in self.names:
                self.bases += [source] if source and source not in self.bases else []
            self.left_to_a_builder(f"{instruction.word} --from={source} {instruction.rest}")
        elif instruction.word == "ADD" and any(_REMOTE.match(source) or _ARCHIVE.search(source) for source in sources):
            if any(source.startswith("git@") or source.endswith(".git") for source in sources):
                self.refuse(instruction.line, "ADD of a git repository needs BuildKit")
            self.left_to_a_builder(whole)
        else:
            copy = Copy(sources=sources, destination=self.destination(given[-1], sources))
            self.say(copies=(*self.stages[-1].copies, copy))

    def arguments(self, rest: str) -> list[str]:
        if rest.startswith("["):
            with contextlib.suppress(ValueError, RecursionError):
                listed = json.loads(rest)
                if all(isinstance(item, str) for item in listed):
                    return [self.expanded(item) for item in listed]
        return words(self.expanded(rest))

    def destination(self, given: str, sources: tuple[str, ...]) -> str:
        """The destination, with a trailing slash if it is a folder."""
        path = self.path(given)
        folder = given.endswith(("/", "/.", "/..")) or given in (".", "..", "") or len(sources) > 1
        for source in sources:
            below = posixpath.normpath("/" + source).lstrip("/") + "/"
            folder = (
                folder or source.endswith("/") or below == "/" or any(name.startswith(below) for name in self.files)
            )
        return path if not folder or path == "/" else path + "/"


def _directive_fault(directives: Mapping[str, str]) -> str | None:
    """Why a directive cannot be honoured. ``# syntax=docker/dockerfile…`` is a comment to the classic builder; another
    frontend is another language."""
    if directives.get("escape", "\\") != "\\":
        return "Dockerfile line 1: the escape directive is for Windows images"
    syntax = directives.get("syntax")
    if syntax is None or re.fullmatch(r"(?:docker\.io/)?docker/dockerfile(?::\d[\w.]*|:latest)?(?:@\S+)?", syntax):
        return None
    return f"Dockerfile line 1: the frontend {syntax[:80]} needs BuildKit"


def parse_dockerfile(text: str, *, files: Collection[str] = ()) -> ParsedDockerfile:
    """Parse a Dockerfile; never raises. ``files``: paths relative to the build context, to distinguish folders from
    files."""
    instructions, directives = read_lines(text)
    reader = _Reader(directives, files)
    for instruction in instructions:
        reader.read(instruction)
    if not reader.stages:
        return ParsedDockerfile(unsupported=reader.unsupported or "the Dockerfile has no FROM")
    return ParsedDockerfile(**dict(reader.stages[-1]), bases=tuple(reader.bases), unsupported=reader.unsupported)


def placed(copies: Sequence[Copy], files: Collection[str]) -> tuple[str, ...]:
    """The absolute paths to which the copies put the build context's files (relative paths), in order. Ignores
    ``.dockerignore``."""
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
    """The copies' sources without wildcards that a build context with these files and links lacks."""
    found = []
    for source in dict.fromkeys(source for copy in copies for source in copy.sources):
        sought = posixpath.normpath("/" + source).lstrip("/")
        # Paths below a link to a folder are not among the files.
        there = (_inside(file, sought) is not None or sought.startswith(f"{file}/") for file in files)
        if not any(sign in source for sign in "*?[\\") and not any(there):
            found.append(source)
    return tuple(found)


def _inside(file: str, sought: str) -> str | None:
    """A file's path below the source folder, "" if the source is the file itself, otherwise None."""
    if not sought or file.startswith(f"{sought}/"):
        return file[len(sought) :].lstrip("/")
    for folder in (file, *map(str, PurePosixPath(file).parents)):
        if folder == sought or (
            any(sign in sought for sign in "*?[") and PurePosixPath("/", folder).match("/" + sought)
        ):
            return file[len(folder) :].lstrip("/")
    return None
