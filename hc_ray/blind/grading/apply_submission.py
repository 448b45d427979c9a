"""Takes a submission into a grading sandbox: look at the untouched image, sort, write what travels, look again."""

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
"""By image and tests; without sessions until a first submission is sorted."""
_REMEMBERED = 1_000
_BYTE_CODE: dict[tuple[str, str], list[str]] = {}
_COMPILED = 64 << 20
"""Bytes of byte code that are remembered; of the tasks that came last, since a sweep grades task after task."""
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
    """What the tests of one grading resolve, as ``hc_probe`` sees it in sandboxes."""

    def __init__(
        self,
        tests: Mapping[str, tuple[bytes, bool]],
        templates: Mapping[str, str],
        key: tuple[str, str],
        untouched: Callable[[], AbstractAsyncContextManager[Sandbox]],
        compiled: Sequence[str] | None = None,
    ) -> None:
        """``tests``: their files; ``templates``: the verifier's own variables. ``key`` names the image and its tests:
        what no submission bears on is looked up once a process. ``untouched`` makes a sandbox of the image.
        ``compiled``: keep byte code, of these folders too."""
        self._mentioned, self._env = mentions(tests), _environment(templates)
        self._key, self._untouched, self._compiled = key, untouched, compiled

    @property
    def byte_code(self) -> list[str]:
        """Of the Pythons' own modules, as far as it is known."""
        return _BYTE_CODE.get(self._key, [])

    @property
    def known(self) -> Image | None:
        """What an untouched sandbox was seen to resolve, as far as no submission bears on it."""
        return _IMAGES.get(self._key)

    def start_up(self, image: Image) -> StartUp:
        """What takes part in the tests unasked."""
        return StartUp(image, self._mentioned.shell_words)

    async def before(self, sandbox: Sandbox, contents: Contents | None) -> Image:
        """What the untouched image holds. Nothing of the submission is there yet, so a failure is the machinery's, and
        raises ``VerifierError``. But its names are in what is asked, and there may be too many of them: raises
        ``Refused`` where another untouched sandbox answers without them, and fails beside them again."""
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
        """What becomes of a submission. In a thread, as all that takes seconds with a hundred thousand paths: others
        are graded meanwhile."""
        return await asyncio.to_thread(sort_out, tar, contents, image, self._mentioned)

    async def carry_over(self, sandbox: Sandbox, tar: bytes, contents: Contents, image: Image) -> Carried:
        """Sort a submission and write what travels into the sandbox. Where something of it lies outside of the working
        directory, or leads there, everything that the tests resolve is looked up again: what is another now was
        tampered with, whichever way. Raises ``Refused`` for what cannot be written."""
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
        """What ``hc_probe`` is asked once a submission is in: everything, but the tests' own imports, which may be
        found only now. No program is run that the image lacks: it would be there as root before the tests are."""
        more = {"session": True, "imports": None, "deep": True, "mapped": _mapped(image.sessions)}
        known = image.programs.get("ldconfig") or image.programs.get("/sbin/ldconfig") or ("",)
        return self._order(None, workdir) | more | {"ours": image.programs, "ldconfig": ldconfig and known[0]}

    def differences(self, contents: Contents, before: Image, after: Image) -> tuple[str, ...]:
        """What was tampered with, by what a second look found."""
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
    """The sessions; where one did not come to its end, every module is taken for loaded that one could load."""
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
