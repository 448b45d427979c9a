"""Takes a submission into a grading sandbox: look at the untouched image, sort, write what travels, look again."""

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.blind.grading.contents import Contents, Refused, refusing
from hc_ray.blind.grading.image import Image, Session, differences
from hc_ray.blind.grading.orders import ask
from hc_ray.blind.grading.test_dependencies import Mentions
from hc_ray.blind.grading.trusted import Carried, led_astray, sort_out
from hc_ray.blind.sealing.variables import resolve_templates
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.runner_paths import PYTEST_PURE, RUNNER_LIB

PROBE_SECONDS = 240.0
_IMAGES: dict[tuple[str, str], Image] = {}
_REMEMBERED = 1_000
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
]


async def look(
    sandbox: Sandbox, contents: Contents | None, mentioned: Mentions, env: Mapping[str, str], key: tuple[str, str]
) -> Image:
    """What the untouched image holds. Nothing of the submission is there yet: a failure is the machinery's, and raises
    ``VerifierError``. ``key`` names the image and its tests: what no submission bears on is looked up once a
    process."""
    known = _IMAGES.get(key)
    order = _order(contents, sandbox.workdir, mentioned, env)
    order |= {"session": contents is not None and known is None, "imports": mentioned.imports}
    if known is not None:
        order["mapped"] = _mapped(known.sessions)
        order["known"] = (
            known.model_dump(mode="json", include={"programs", "pytest", "pythons"}) if known.pythons else {}
        )
    report, trouble = await ask(sandbox, "probe", order, PROBE_SECONDS)
    if report is None:
        raise VerifierError(f"the verifier's runner did not start in its sandbox: {trouble}")
    image = Image.model_validate(report)
    if contents is None:
        return image
    if known is None:
        image = image.model_copy(update={"sessions": _assumed(image)})
        if len(_IMAGES) >= _REMEMBERED:
            _IMAGES.clear()
        _IMAGES[key] = image
        return image
    return image.model_copy(update={"sessions": known.sessions})


async def look_without(
    untouched: Sandbox, contents: Contents | None, mentioned: Mentions, env: Mapping[str, str], key: tuple[str, str]
) -> None:
    """After a look that failed: whose fault that was. A submission has its names in what is asked, and there may be
    too many of them. Raises ``VerifierError`` where an untouched sandbox does not answer without them either, and
    ``Refused`` where it does, and then fails beside them again."""
    await look(untouched, None, mentioned, env, key)
    if contents is not None:
        try:
            await look(untouched, contents, mentioned, env, key)
        except VerifierError as again:
            raise Refused(f"what its paths are in the image cannot be told: {again}") from None


def _assumed(image: Image) -> tuple[Session, ...]:
    """The sessions; where one did not come to its end, every module is taken for loaded that one could load."""
    names = {*sys.stdlib_module_names, *_PYTEST}
    return tuple(
        session.model_copy(update={"loaded": {name: (f"{python.stdlib[0]}/{name}.py",) for name in names}})
        if session.failed and python.stdlib
        else session
        for session, python in zip(image.sessions, image.pythons, strict=False)
    )


async def carry_over(
    sandbox: Sandbox, tar: bytes, contents: Contents, image: Image, mentioned: Mentions, env: Mapping[str, str]
) -> Carried:
    """Sort a submission and write what travels into the sandbox. Where something of it lies outside of the working
    directory, or leads there, everything that the tests resolve is looked up again: what is another now was tampered
    with, whichever way. Raises ``Refused`` for what cannot be written."""
    with refusing():
        carried = await asyncio.to_thread(sort_out, tar, contents, image, sandbox.workdir, mentioned)
    if carried.tampered or not carried.tar:
        return carried
    with refusing():
        await sandbox.put_tar(carried.tar)
    if not carried.reaches_out:
        return carried
    order = second_look(image, sandbox.workdir, mentioned, env, ldconfig=carried.libraries)
    report, trouble = await ask(sandbox, "probe", order, PROBE_SECONDS)
    try:
        after = Image.model_validate(report)
    except ValueError:
        raise Refused(f"with the submission in it, the sandbox says no more what it resolves: {trouble}") from None
    tampered = differences(image, after) or led_astray(contents, image, after, sandbox.workdir, mentioned)
    return carried.model_copy(update={"tampered": tampered})


def _mapped(sessions: Iterable[Session]) -> list[str]:
    return sorted({file for session in sessions for file in session.mapped})


def second_look(
    image: Image, workdir: str, mentioned: Mentions, env: Mapping[str, str], *, ldconfig: bool
) -> dict[str, Any]:
    """What is asked once a submission is in: everything, but the tests' own imports, which may be found only now."""
    more = {"session": True, "imports": None, "deep": True, "mapped": _mapped(image.sessions), "ldconfig": ldconfig}
    return _order(None, workdir, mentioned, env) | more


def _order(contents: Contents | None, workdir: str, mentioned: Mentions, env: Mapping[str, str]) -> dict[str, Any]:
    """What ``hc_probe`` is asked."""
    return {
        "paths": contents.members if contents else (),
        "removed": contents.deleted if contents else (),
        "links": contents.links if contents else {},
        "workdir": workdir,
        "words": mentioned.words,
        "search": mentioned.search,
        "sourced": mentioned.sourced,
        "modules_at": mentioned.modules_at,
        "lib": RUNNER_LIB,
        "pure": PYTEST_PURE,
        "env": dict(env),
    }


def tests_environment(templates: Mapping[str, str]) -> dict[str, str]:
    """Of the verifier's own variables those that decide what is resolved to what, as far as they can be filled in
    (``grade`` says where they cannot). Keys of services are not among them."""
    chosen = {
        name: text for name, text in templates.items() if name in _RESOLVING or name.startswith(("PYTHON", "LD_"))
    }
    try:
        return resolve_templates(chosen, os.environ)
    except DatasetError:
        return {}
