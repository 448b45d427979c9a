"""Applies a submission to a grading sandbox: probe the untouched image, sort the submission, write the carried part,
probe again."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from typing import Any

from hc_ray.blind.grading.contents import Contents, Refused, refusing
from hc_ray.blind.grading.image import Image, Session, differences
from hc_ray.blind.grading.orders import ask
from hc_ray.blind.grading.startup import StartUp
from hc_ray.blind.grading.test_dependencies import mentions
from hc_ray.blind.grading.trusted import Carried, led_astray, sort_out
from hc_ray.blind.sealing.variables import resolve_templates
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.runner_paths import PYTEST_PURE, RUNNER_LIB

PROBE_SECONDS = 240.0
_IMAGES: dict[tuple[str, str], Image] = {}
"""Cached probes by image and tests; without sessions until a first submission is sorted."""
_REMEMBERED = 1_000
_BYTE_CODE: dict[tuple[str, str], list[str]] = {}
_COMPILED = 64 << 20
"""Bytes of byte code to cache, for the most recent tasks, since a sweep grades task by task."""
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")
_RESOLVING = [
    "PATH",
    "HOME",
    "ENV",
    "BASH_ENV",
    "OPENSSL_CONF",
    "GIT_CONFIG_GLOBAL",
    "NODE_PATH",
    "PERL5LIB",
    "PERL5OPT",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
]


class Looks:
    """What the tests of one grading resolve, as probed by ``hc_probe`` in sandboxes."""

    def __init__(
        self,
        tests: Mapping[str, tuple[bytes, bool]],
        templates: Mapping[str, str],
        key: tuple[str, str],
        untouched: Callable[[], AbstractAsyncContextManager[Sandbox]],
        compiled: Sequence[str] | None = None,
    ) -> None:
        """``tests``: their files; ``templates``: the verifier's variables. ``key`` identifies the image and its tests,
        for caching what no submission can affect. ``untouched`` makes a sandbox of the image. ``compiled``: also keep
        byte code of these folders."""
        self._mentioned, self._env = mentions(tests), _environment(templates)
        self._key, self._untouched, self._compiled = key, untouched, compiled

    @property
    def byte_code(self) -> list[str]:
        """Of the Pythons' own modules, as far as it is known."""
        return _BYTE_CODE.get(self._key, [])

    @property
    def known(self) -> Image | None:
        """What an untouched sandbox resolves, as far as no submission can affect it."""
        return _IMAGES.get(self._key)

    def start_up(self, image: Image) -> StartUp:
        """The rules for start-up files, which take part in the tests without being named."""
        return StartUp(image, self._mentioned.shell_words)

    async def before(self, sandbox: Sandbox, contents: Contents | None) -> Image:
        """Probe the untouched image. Nothing of the submission is there yet, so a failure is the infrastructure's and
        raises ``VerifierError``. But the order contains the submission's names, possibly too many: raises ``Refused``
        if another untouched sandbox answers without them and fails again with them."""
        try:
            return await self._look(sandbox, contents)
        except VerifierError:
            async with self._untouched() as other:
                await self._look(other, None)
                try:
                    await self._look(other, contents)
                except VerifierError as again:
                    if contents is not None:
                        raise Refused(f"what its paths are in the image cannot be told: {again}") from None
            raise

    async def _look(self, sandbox: Sandbox, contents: Contents | None) -> Image:
        known = self.known
        session = contents is not None and not (known and known.sessions)
        order = self._order(contents, sandbox.workdir)
        order |= {"session": session, "imports": self._mentioned.imports}
        order["compiled"] = self._compiled
        if known is not None:
            order["mapped"] = _mapped(known.sessions)
            order["known"] = (
                known.model_dump(mode="json", include={"programs", "pytest", "pythons", "searched"})
                if known.pythons
                else {}
            )
        report, trouble = await ask(sandbox, "probe", order, PROBE_SECONDS)
        if report is None:
            raise VerifierError(f"the verifier's runner did not start in its sandbox: {trouble}")
        image = Image.model_validate(report)
        if known is not None and not session:
            return image.model_copy(update={"sessions": known.sessions})
        self._remember_byte_code(image.sessions)
        image = image.model_copy(update={"sessions": _assumed(image)})
        if len(_IMAGES) >= _REMEMBERED:
            _IMAGES.clear()
        _IMAGES[self._key] = image
        return image

    def _remember_byte_code(self, sessions: Iterable[Session]) -> None:
        if found := [session.byte_code for session in sessions if session.byte_code]:
            _BYTE_CODE[self._key] = found
            while sum(map(len, chain(*_BYTE_CODE.values()))) > _COMPILED:
                del _BYTE_CODE[next(iter(_BYTE_CODE))]

    async def sorted_out(self, tar: bytes, contents: Contents, image: Image) -> Carried:
        """Sort a submission. Runs in a thread, since it takes seconds for a hundred thousand paths."""
        return await asyncio.to_thread(sort_out, tar, contents, image, self._mentioned)

    async def carry_over(self, sandbox: Sandbox, tar: bytes, contents: Contents, image: Image) -> Carried:
        """Sort a submission and write the carried part into the sandbox. If any of it is outside the working directory,
        or leads there, everything that the tests resolve is probed again: any change counts as tampering. Raises
        ``Refused`` for what cannot be written."""
        with refusing():
            carried = await self.sorted_out(tar, contents, image)
        if carried.tampered or not carried.tar:
            return carried
        with refusing():
            await sandbox.put_tar(carried.tar)
        if not carried.reaches_out:
            return carried
        order = self.again(image, sandbox.workdir, ldconfig=carried.libraries)
        report, trouble = await ask(sandbox, "probe", order, PROBE_SECONDS)
        try:
            after = Image.model_validate(report)
        except ValueError:
            raise Refused(f"with the submission in it, the sandbox says no more what it resolves: {trouble}") from None
        return carried.model_copy(update={"tampered": self.differences(contents, image, after)})

    def again(self, image: Image, workdir: str, *, ldconfig: bool) -> dict[str, Any]:
        """The order for ``hc_probe`` with the submission in place: everything except the tests' own imports, which may
        only be found now. Runs no program that the image lacks, since it would run as root before the tests."""
        more = {"session": True, "imports": None, "deep": True, "mapped": _mapped(image.sessions)}
        known = image.programs.get("ldconfig") or image.programs.get("/sbin/ldconfig") or ("",)
        return self._order(None, workdir) | more | {"ours": image.programs, "ldconfig": ldconfig and known[0]}

    def differences(self, contents: Contents, before: Image, after: Image) -> tuple[str, ...]:
        """The tampered paths, by the second probe."""
        return differences(before, after) or led_astray(contents, before, after, self._mentioned)

    def _order(self, contents: Contents | None, workdir: str) -> dict[str, Any]:
        mentioned = self._mentioned
        return {
            "paths": contents.members if contents else (),
            "removed": contents.deleted if contents else (),
            "links": contents.links if contents else {},
            "workdir": workdir,
            "words": mentioned.words,
            "search": mentioned.search,
            "sourced": mentioned.sourced,
            "modules_at": mentioned.modules_at,
            "libraries_at": mentioned.libraries_at,
            "lib": RUNNER_LIB,
            "pure": PYTEST_PURE,
            "env": self._env,
        }


def _mapped(sessions: Iterable[Session]) -> list[str]:
    return sorted({file for session in sessions for file in session.mapped})


def _assumed(image: Image) -> tuple[Session, ...]:
    """The sessions; if one did not finish, every module that it could load counts as loaded."""
    names = {*sys.stdlib_module_names, *_PYTEST}
    return tuple(
        session.model_copy(update={"loaded": {name: (f"{python.stdlib[0]}/{name}.py",) for name in names}})
        if session.failed and python.stdlib
        else session.model_copy(update={"byte_code": ""})
        for session, python in zip(image.sessions, image.pythons, strict=False)
    )


def _environment(templates: Mapping[str, str]) -> dict[str, str]:
    """Of the verifier's own variables those that decide what is resolved to what, as far as they can be filled in
    (``grade`` says where they cannot). Keys of services are not among them."""
    chosen = {
        name: text for name, text in templates.items() if name in _RESOLVING or name.startswith(("PYTHON", "LD_"))
    }
    try:
        return resolve_templates(chosen, os.environ)
    except DatasetError:
        return {}
