"""The command line: parse flags, build a config, make one call. Verbs import lazily, so that ``hc-ray --help`` starts
at once.

Exit codes: 0 done (failed trials included), 1 a bug or an infrastructure failure, 2 invalid arguments or config,
3 some trials unscored, 130 interrupted."""

import atexit
import contextlib
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from hc_ray import __version__
from hc_ray.cli import best, integrations, machine, models, report, skills, sweep, tasks, trials
from hc_ray.cli.options import Verb
from hc_ray.domain.errors import HcRayError, StoreError, UserError
from hc_ray.reports.page import printable

NAME = "hc-ray"
DEBUG = "--debug"
_MACHINE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE,
            errno.EAGAIN, errno.ENOMEM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOLCK, errno.ENAMETOOLONG,
            errno.ELOOP, errno.EIO}  # fmt: skip
"""Errors of the machine or of a path that the user named, rather than bugs in hc-ray."""
_EMPTY = re.compile(r"(--[\w-]+=)?\s*")
_UNSET = "is empty, as when a shell variable is not set: give a value, or leave it out"
_RENAME = "is not valid UTF-8: rename it, or set a locale such as LC_ALL=C.UTF-8"


@contextlib.contextmanager
def _aborting_on_interrupt() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:  # typer would exit silently
        raise typer.Abort from None
    except BrokenPipeError:  # the reader closed the pipe (`| head`): no error, but typer would make it one
        sys.stdout = None  # flushing it at exit must not raise again
        raise typer.Exit from None


class _Commands(TyperGroup):
    def make_context(self, *given: Any, **more: Any) -> Any:
        with _aborting_on_interrupt():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _aborting_on_interrupt():
            return super().invoke(ctx)


app = typer.Typer(
    name=NAME,
    cls=_Commands,
    help="Lets a small local model solve coding and terminal tasks with test-time compute, and measures with blind "
    "grading what the search gains.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hc-ray {__version__}")
        raise typer.Exit


@app.callback()
def _every_verb(
    debug: bool = Option(False, DEBUG, help="Show tracebacks. Accepted anywhere on the line."),
    version: bool = Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    pass


_VERBS = (
    *(sweep.sweep, sweep.run, sweep.climb, report.report, report.status, best.best, best.stats, trials.show),
    *(trials.testgen, trials.regrade, trials.unseal, trials.audit, integrations.mcp, integrations.monitor),
    *(machine.doctor, machine.clean, machine.ui),
)
_GROUPS: dict[str, tuple[str, dict[str, Verb]]] = {
    "tasks": ("Datasets of tasks.", {
        "list": tasks.list_tasks, "check": tasks.check, "split": tasks.split, "new": tasks.new,
        "import": tasks.import_benchmark,
    }),
    "models": ("The model catalogue.", {"list": models.list_models, "pull": models.pull}),
    "engine": ("Inference servers.", {"bench": models.bench}),
    "skills": ("General know-how that prompts may include.", {
        "list": skills.list_skills, "learn": skills.learn, "export": skills.export,
    }),
    "export": ("Export a sweep, or the best config of several.", {
        "mlflow": machine.export_mlflow, "best": best.export_best, "harbor": report.export_harbor,
    }),
}  # fmt: skip
"""Group → its help text and its verbs."""

for _verb in _VERBS:
    app.command()(_verb)
for _name, (_help, _verbs) in _GROUPS.items():
    _group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help=_help)
    for _word, _verb in _verbs.items():
        _group.command(_word)(_verb)
    app.add_typer(_group, name=_name)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Every exception is handled here."""
    debug = DEBUG in arguments
    try:
        command = typer.main.get_command(app)
        if name := next(filter(_is_not_utf8, arguments), None):
            raise UserError(f"{name!r} {_RENAME}")
        for before, argument in zip(("", *arguments), arguments, strict=False):
            if _EMPTY.fullmatch(argument):
                named = argument.rstrip(" =") or (before if before.startswith("-") else "an argument")
                raise UserError(f"{named} {_UNSET}")
        # `--debug` may also follow the verb. No verb declares it, so remove it before typer sees it.
        kept = [argument for argument in arguments if argument != DEBUG]
        code = command.main(kept, prog_name=NAME, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _end(130, "interrupted")
    except typer.TyperException as error:
        return _usage(error)
    except Exception as error:
        if debug:
            raise
        # Pydantic wraps an interrupt that arrives while it builds a validator in an error of its own.
        if "KeyboardInterrupt" in str(error):
            return _end(130, "interrupted")
        return _fault(error)


def _usage(error: Exception) -> int:
    """Report invalid arguments in typer's words; a group without a verb prints its help."""
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        _print(message)
        return 2
    path = context.command_path if context is not None else "hc-ray"
    return _end(2, f"{message.rstrip()}\nSee `{path} --help`.")


def _fault(error: Exception) -> int:
    if isinstance(error, UserError | StoreError):
        return _end(2, str(error))
    if isinstance(error, FileNotFoundError) and not _cwd_exists():
        return _end(1, "the current directory no longer exists: change to another one")
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # pathlib's, for --install-completion
        return _end(1, "this user has no home folder: set HOME to a folder that you can write to")
    if isinstance(error, UnicodeEncodeError) and _cwd_exists() and _is_not_utf8(here := str(Path.cwd())):
        return _end(2, f"{here!r}, the current directory, {_RENAME}")
    if isinstance(error, OSError) and error.errno in _MACHINE:
        from hc_ray.machine.paths import refusal

        return _end(1, refusal(error))
    kind = "" if isinstance(error, HcRayError) else "bug: "
    says = next(iter(str(error).strip().splitlines()), "no message")
    return _end(1, f"{kind}{type(error).__name__}: {says} (rerun with {DEBUG} for the traceback)")


def _is_not_utf8(name: str) -> bool:
    return name != name.encode(errors="replace").decode()


def _cwd_exists() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False


def _end(code: int, message: str) -> int:
    from hc_ray.domain.credentials import scrub

    _print(f"hc-ray: {printable(scrub(message))}", err=True)
    return code


def _print(text: str, *, err: bool = False) -> None:
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        sys.stdout = None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """The ``hc-ray`` command. SIGTERM and a closed terminal act like Ctrl-C: whatever was started is cleaned up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # ``nohup`` ignores SIGHUP; keep it so
            signal.signal(number, _interrupt)
    # The next file opened would take the descriptor of a closed stream (``>&-``).
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(spare, True)
    os.close(spare)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Escape characters that the terminal's encoding lacks, as stderr does.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = 0

    def end() -> None:
        if code == 130:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(code)

    # Runs last, since exit handlers run in reverse order: an interrupted Ray crashes at interpreter shutdown.
    atexit.register(end)
    code = run(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the exit handlers remain, Ray's among them
    if any(thread.name == "leaving" for thread in threading.enumerate()):  # the head hangs, and Ray would crash here
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
