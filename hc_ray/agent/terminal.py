"""Performs a lineage's actions in its sandbox and reports their true results. Failures inside the sandbox become text
for the model; only infrastructure failures raise."""

import difflib
import json
import posixpath

from hc_ray.agent.actions import Action, replacements
from hc_ray.domain.candidate import is_program
from hc_ray.domain.ports import ExecResult, Sandbox
from hc_ray.domain.runner_paths import inside_command
from hc_ray.domain.value import Printed, Value

PLACE = "/tmp/.terminal"
"""Folder of a session's state and full outputs, below /tmp so that no submission contains them."""
_MOST = 64 << 20
"""A command is stopped after this many bytes of output."""
_GRACE = 15.0
"""Seconds beyond a command's own limit before the sandbox ends it."""
_LARGEST = 8 << 20
_REPORT = 4 << 20
_COMPARED = 20_000
"""Lines of a file to search for the closest match of a passage."""


class Limits(Value):
    """The limits of one action."""

    seconds: float = 60.0
    """Default time limit of a command."""
    most_seconds: float = 900.0
    """The longest time limit that a command may request."""
    shown: int = 10_000
    """Characters of an output to show; the full output is in a file."""


class Observation(Value):
    """The result of an action."""

    says: Printed
    failed: bool = False


class Terminal:
    """One session in one sandbox."""

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self.sandbox, self.limits = sandbox, limits
        self.cwd = self.known = sandbox.workdir
        """The session's working directory, and the one that the model has been told."""
        self._commands = 0

    async def perform(self, action: Action) -> Observation:
        """Perform an action, except ``submit``, which the loop handles."""
        try:
            if action.name == "sh":
                return await self._command(action)
            return await (self._write(action) if action.name == "write" else self._edit(action))
        except ValueError as error:
            return Observation(says=f"error: {error}", failed=True)

    async def _command(self, action: Action) -> Observation:
        self._commands += 1
        limit = min(self.limits.most_seconds, action.seconds or self.limits.seconds)
        order = {
            "command": action.body,
            "place": PLACE,
            "number": self._commands,
            "workdir": self.sandbox.workdir,
            "timeout": limit,
            "most": _MOST,
            "shown": self.limits.shown,
        }
        done = await self.sandbox.exec(inside_command("shell"), timeout=limit + _GRACE,
                                       stdin=json.dumps(order).encode(), output_limit=_REPORT)  # fmt: skip
        try:
            told = json.loads(done.stdout)
            return Observation(says=self._told(told, limit), failed=told["exit_code"] != 0)
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            # A command can end the program that runs it, and forge its report.
            how = f"past its time limit of {limit:g} s" if done.timed_out else "before it told what came of the command"
            says = f"What runs commands was ended {how}; the output is lost. {_tail(done.stderr)}"
            return Observation(says=says.strip(), failed=True)

    def _told(self, told: dict[str, object], limit: float) -> str:
        head, tail, size, path = str(told["head"]), str(told["tail"]), int(str(told["size"])), str(told["path"])
        if told["stopped"] == "timeout":
            more = (
                f"up to {self.limits.most_seconds:g} s with `sh timeout=SECONDS`, or run it in the background with `&`"
            )
            ended = f"stopped at its time limit of {limit:g} s (allow {more})"
        elif told["stopped"]:
            ended = f"stopped: it wrote more than {_MOST >> 20} MiB"
        else:
            ended = f"exit code {told['exit_code']}"
        known, self.cwd = self.known, str(told["cwd"])
        self.known = self.cwd
        moved = f"\nworking directory: {self.cwd}" if self.cwd != known else ""
        if "\0" in head + tail:
            text = head.partition("\0")[0]
            text = text[: text.rfind("\n") + 1]
            return f"{ended}{moved}\n{text}(binary output, not shown; all {size:,} bytes are in {path})"
        if tail:
            kept = len(head.encode()) + len(tail.encode())
            gap = f"[… {told['lines']} lines, {size - kept:,} bytes left out; the whole output is in {path} …]"
            head = f"{head}{'' if head.endswith(chr(10)) else chr(10)}{gap}\n{tail}"
        return f"{ended}{moved}\n{head}".rstrip("\n")

    async def _write(self, action: Action) -> Observation:
        path = await self._absolute(action.argument)
        await self._put(path, action.body)
        return Observation(says=f"wrote {self._shown(action, path)}: {len(action.body.splitlines())} lines")

    async def _edit(self, action: Action) -> Observation:
        path = await self._absolute(action.argument)
        read = await self._sh('[ ! -f "$1" ] || cat -- "$1" && [ -f "$1" ]', path)
        if read.exit_code != 0 or read.truncated:
            fault = "is larger than what can be edited" if read.truncated else _tail(read.stderr) or "is not a file"
            return Observation(says=f"error: {path} {fault}", failed=True)
        try:
            text = read.stdout.decode()
        except UnicodeDecodeError:
            return Observation(says=f"error: {path} is not UTF-8 text; change it with a command", failed=True)
        windows = "\r\n" in text and text.count("\n") == text.count("\r\n")
        if windows:  # the model does not see the carriage returns of such a file
            text = text.replace("\r\n", "\n")
        for number, (old, new) in enumerate(replacements(action.body), start=1):
            if old not in text:
                old, new = old[:-1], new[:-1]  # a part of a line, or a last line that does not end
            count = text.count(old) if old else 0
            if count != 1:
                says = f"error: passage {number} occurs {count} times in {path}, not once; nothing was changed"
                return Observation(says=says + ("" if count else _nearest(old, text)), failed=True)
            text = text.replace(old, new)
        await self._put(path, text.replace("\n", "\r\n") if windows else text)
        return Observation(says=f"edited {self._shown(action, path)}")

    async def _put(self, path: str, text: str) -> None:
        """Write a file, keeping its links and permissions."""
        script = 'mkdir -p -- "${1%/*}/" && cat > "$1"' + (' && chmod a+x -- "$1"' if is_program(path, text) else "")
        done = await self._sh(script, path, text.encode())
        if done.exit_code != 0:
            raise ValueError(_tail(done.stderr) or f"{path} cannot be written")

    def _shown(self, action: Action, path: str) -> str:
        """A path as the model wrote it, or the full path if the working directory has changed."""
        return action.argument if self.cwd == self.sandbox.workdir else path

    async def _absolute(self, path: str) -> str:
        """Resolve a path: relative ones from the session's working directory, ``~`` to its user's home."""
        if path == "~" or path.startswith("~/"):
            path = (await self._sh('printf %s "$HOME"')).stdout.decode() + path[1:]
        return posixpath.normpath(posixpath.join(self.cwd, path))

    async def _sh(self, script: str, path: str = "", stdin: bytes = b"") -> ExecResult:
        """Run a script on a path as the session's user, with that user's permissions."""
        command = ["sh", "-c", script, "sh", path]
        return await self.sandbox.exec(command, timeout=_GRACE, stdin=stdin, output_limit=_LARGEST)


def _nearest(old: str, text: str) -> str:
    """The lines of a file that are most similar to a missing passage."""
    wanted, lines = old.splitlines(), text.splitlines()
    first = next((line for line in wanted if line.strip()), "")
    near = difflib.get_close_matches(first, lines, n=1, cutoff=0.6) if len(lines) < _COMPARED else []
    if not near:
        return ""
    at = lines.index(near[0])
    return "\nThe nearest lines of the file are:\n" + "\n".join(lines[at : at + max(3, len(wanted))][:20])


def _tail(stream: bytes) -> str:
    return stream.decode("utf-8", "replace")[-500:].strip()
