"""One shared grading, step by step: the checks before, during and after the tests' run in a live sandbox."""

import asyncio
import base64
import json
import posixpath
import re
import secrets
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

from hc_ray.blind.grading import verify
from hc_ray.blind.grading.apply_submission import PROBE_SECONDS, Looks
from hc_ray.blind.grading.contents import Contents, Refused, begins, parents, read_contents, top_module
from hc_ray.blind.grading.image import Image
from hc_ray.blind.grading.orders import ANSWER_LIMIT, answer
from hc_ray.blind.grading.startup import FOLDERS, IN_HOMES, StartUp
from hc_ray.blind.grading.trusted import SYSTEM, TRANSIENT, Carried, below
from hc_ray.blind.grading.untouched import Untouched
from hc_ray.blind.sealing.vault import VerifierSpec
from hc_ray.domain.errors import VerifierError
from hc_ray.domain.ports import Changes, Gradable
from hc_ray.domain.runner_paths import PYTEST_PURE, RUNNER_LIB
from hc_ray.domain.task import Task

_ROOM = 128 << 20
"""Bytes that the tests, their logs and byte code may take at least; four times the tests' own size at most."""
_HIDDEN = ("/tests", "/logs")
"""Which nobody but the tests sees."""
_CODE = re.compile(r"(?s)(/usr(/local)?)?/(s?bin|lib[^/]*|libexec|include|share)/.*")


class Grading:
    """One grading in one live sandbox."""

    def __init__(
        self,
        task: Task,
        sandbox: Gradable,
        spec: VerifierSpec,
        tests: verify.Files,
        *,
        untouched: Untouched,
        spared: tuple[str, ...] | None,
    ) -> None:
        self.task, self.sandbox, self.spec, self.tests = task, sandbox, spec, tests
        self.untouched = untouched
        self._spared = None if spared is None else set(spared)
        self._key = (f"shared {type(sandbox).__name__}", task.digest + spec.sealed_digest)
        self._looks = Looks(tests, spec.env, self._key, untouched.fresh, [PYTEST_PURE])
        self._contents = Contents()
        self._handed_in: set[str] = set()
        self._own: set[str] = set()
        """Paths of the candidate that the image lacks."""

    async def fields(self, terms: verify.Terms, *, careful: bool) -> dict[str, Any]:
        """The verdict's fields. ``careful``: check for tampering, which an untouched sandbox does not need."""
        carried, image, tidy = await self._sorted() if careful else (Carried(tar=b""), await self.plain(), {})
        told: dict[str, Any] = {"left_behind": carried.left_behind}
        if carried.tampered:
            return {**told, **_tampered(carried.tampered)}
        watched = _Watched(image, self._looks.start_up(image))
        pure = PYTEST_PURE if image.pytest == "pure" else ""
        lent = {"sites": [(*one.sites, *one.user) for one in image.pythons], "lib": RUNNER_LIB, "pure": pure}
        prepared: dict[str, Any] = {"seals": {}, "come": {}, "trees": [], "begun": 0, **lent}
        if careful:
            answer = await self._prepared(image, watched, carried, {**lent, **tidy}, deep=bool(tidy))
            if different := await self._unlike(image, watched, answer):
                return {**told, **_tampered(different)}
            prepared = {
                "seals": answer["seals"],
                "come": watched.come,
                "trees": watched.trees,
                "begun": answer["begun"],
                "rooms": [room for room in answer["rooms"] if not below(room, watched.installed)],
            }
        report = await self._run(image, prepared)
        if report is not None and "refused" in report:
            raise VerifierError(f"this Docker cannot hide tests in a shared sandbox: {report['refused']}")
        found = {**told, **await verify.decided(report, self.spec, terms)}
        moved = set((report or {}).get("unsealed", ()))
        if careful:
            moved |= await self._changed(watched, (report or {}).get("late", ()))
        if self._spared is None:
            return {**found, "restless": tuple(sorted(moved))}
        moved -= self._spared
        if moved:
            return {**told, **_tampered(tuple(sorted(moved))), "rewards": found.get("rewards", {})}
        return found

    async def plain(self) -> Image:
        """Probe the image in an untouched sandbox."""
        return self._looks.known or await self._looks.before(self.sandbox, None)

    async def _sorted(self) -> tuple[Carried, Image, dict[str, Any]]:
        """What the sandbox differs in, sorted as for isolated grading, and what undoes that which is not carried."""
        tar = (await self.sandbox.difference()).tar
        contents = self._contents = await asyncio.to_thread(read_contents, tar)

        async def look(untouched: Gradable) -> tuple[Carried, Image, dict[str, Any]]:
            image = await self._looks.before(untouched, contents)
            carried = await self._looks.sorted_out(tar, contents, image)
            kept = await asyncio.to_thread(read_contents, carried.tar)
            # Folders carry modes alone, and those of the image's own are left as they are. What ldconfig makes is
            # judged by what it resolves.
            self._handed_in = {*kept.members, *kept.deleted, *contents.folders, "/etc/ld.so.cache"}
            self._own = {*contents.members} - {*image.exists}
            return carried, image, {} if carried.tampered else await _put_right(untouched, contents, kept, image)

        return await self.untouched.ask(look)

    async def _prepared(
        self, image: Image, watched: "_Watched", carried: Carried, put_right: dict[str, Any], *, deep: bool
    ) -> dict[str, Any]:
        """What the sandbox answers once what is not carried was put right and what the tests stand on was sealed;
        where something could reach it, with what the tests resolve now."""
        probe: dict[str, Any] = {}
        if carried.reaches_out or deep:
            probe = self._looks.again(image, self.sandbox.workdir, ldconfig=carried.libraries or deep)
        # What was handed in may differ from the image, and change no more.
        sealed = [*watched.sealed, *filter(watched.holds, self._handed_in - set(self._contents.folders))]
        order = {"do": "prepare", **put_right, "sealed": sealed, "whole": watched.whole, "probe": probe, "room": _ROOM}
        order |= {"trees": watched.trees, "began": self.sandbox.began, "come": watched.come}
        order["byte_code"] = self._looks.byte_code if probe else []  # else nothing runs before the tests
        report = await self._order(order, PROBE_SECONDS)
        if report is not None and "refused" in report:
            raise VerifierError(f"this Docker cannot hide tests in a shared sandbox: {report['refused']}")
        if report is None or "error" in report:
            raise Refused("the sandbox cannot be probed with the candidate in it")
        return report

    async def _unlike(self, image: Image, watched: "_Watched", prepared: dict[str, Any]) -> tuple[str, ...]:
        """What the tests would stand on that neither the image has nor the candidate handed in. It is looked at under
        the seals, so that a process of the candidate's cannot show one state here and another to the tests."""
        appeared = {*await self._changed(watched), *prepared["odd"]}
        appeared = appeared or await self._others(
            [path for path in prepared["touched"] if self._matters(watched, path)]
        )
        if appeared or prepared["resolved"] is None:
            return tuple(sorted(appeared))
        return self._looks.differences(self._contents, image, Image.model_validate(prepared["resolved"]))

    def _matters(self, watched: "_Watched", path: str) -> bool:
        return path not in self._handed_in and watched.looks_at(path)

    async def _others(self, touched: Sequence[str]) -> set[str]:
        """Of what was changed at any time, whatever its size and its own time say, that which the image has otherwise.
        All is asked at once of each side: who sets the modes of ``/usr`` anew, as they were, touches thousands."""
        if not touched:
            return set()
        order = {"do": "look", "paths": touched}
        there = await self.untouched.ask(lambda untouched: self._order(order, PROBE_SECONDS, untouched))
        if there is None:
            raise VerifierError("an untouched sandbox could not be probed")
        had = {path: look for path, look in zip(touched, there["looks"], strict=True) if look}  # else it would be added
        here = await self._order({"do": "look", "paths": [*had]}, PROBE_SECONDS) or {"looks": [""] * len(had)}
        return {path for path, look in zip(had, here["looks"], strict=True) if look != had[path]}

    async def _changed(self, watched: "_Watched", late: Sequence[str] = ()) -> set[str]:
        """What the tests would stand on that is neither as in the image nor handed in; of ``late``, what was changed
        since they began, also that which is again as it was."""
        looked_at = await self.sandbox.changes(partial(self._matters, watched))
        known = {*self._handed_in, *looked_at.added}
        moved = watched.moved(looked_at) | {path for path in late if path not in known and watched.was_to_stay(path)}
        return moved | watched.exchanged({*late}) - {*self._own, *looked_at.added}

    async def _run(self, image: Image, prepared: dict[str, Any]) -> dict[str, Any] | None:
        script, cwd = self.tests["test.sh"][0], self.sandbox.workdir
        how = verify.run_order(self.task, self.spec, image, script, cwd, lib=RUNNER_LIB)
        size = sum(len(content) for content, _ in self.tests.values())
        order = {
            "do": "run",
            "room": max(_ROOM, 4 * size),
            "byte_code": self._looks.byte_code,
            "tests": {path: [base64.b64encode(content).decode(), bit] for path, (content, bit) in self.tests.items()},
            **prepared,
            **how,
        }
        return await self._order(order, self.spec.timeout_sec + verify.GRACE_SECONDS)

    async def _order(
        self, order: dict[str, Any], timeout: float, sandbox: Gradable | None = None
    ) -> dict[str, Any] | None:
        sandbox = sandbox or self.sandbox
        nonce = secrets.token_hex(16)
        environ = dict(await sandbox.environment())
        line = json.dumps({**order, "nonce": nonce, "environ": environ}).encode()
        out = await sandbox.sealed(line, timeout=timeout, limit=ANSWER_LIMIT)
        return answer(out, nonce)


class _Watched:
    """What must not change while the tests run."""

    def __init__(self, image: Image, start_up: StartUp) -> None:
        self._start_up = start_up
        self.installed = {folder for python in image.pythons for folder in python.installed}
        self._whole = {folder for python in image.pythons for folder in python.stdlib} | self.installed
        self.whole = sorted(self._whole)
        self._grounds = image.grounds
        self.trees = [*self.whole, *self._grounds, *SYSTEM]
        """Where code lies that must be as it was at any moment."""
        self._run_in = {one for one in (image.workdir, *image.modules_at) if not below(one, _HIDDEN)}
        self._folders = {*image.path, *image.first, "/", "/etc", *FOLDERS, *chain(*image.searched.values())}
        self._folders |= {*image.loader} - self._run_in
        self._folders |= {folder for python in image.pythons for folder in python.order}
        by_name = {*image.searched.get("perl", ()), *image.searched.get("headers", ())}
        self._modules = {*self._whole, *(folder for folder in by_name if not below(folder, self._run_in))}
        """In which, however deep, a new name may be what a program looks for."""
        self._files = {*image.trusted_files(), *start_up.named}
        near = {*self._folders, *self._whole, *self._grounds, *(posixpath.dirname(file) for file in self._files)}
        above = {parent for path in near for parent in parents(path + "/x")}
        self._homes = set(image.homes)
        self._settings = {*IN_HOMES, *(f".{name}" for name in image.programs)}
        hooks = {f"{home}/{name}" for home in image.homes for name in IN_HOMES}
        self.sealed = sorted({*near, *above, *self._files, *image.unasked, *hooks, image.home} - {""})
        self._loaded = {name for session in image.sessions for name in (*session.loaded, *session.tried)}
        self._loaded |= {"hc_witness", *image.standard(), *image.library()}
        self._libraries = {*image.libraries} if self._run_in.intersection(image.loader) else set()
        names = [*self._loaded, *self._libraries]
        self.come = {folder: sorted(names) for folder in {*self._run_in, "/"}}
        self.come |= {"/var": ["run"], "/var/run": ["nscd"]}
        """Homes, folders that the tests run in and those above, with names that must neither come nor go while they
        do."""
        for home in image.homes:
            self.come.setdefault(home, []).extend(IN_HOMES)
        for path in (*image.unasked, *(f"{python.ssl}/openssl.cnf" for python in image.pythons if python.ssl)):
            self.come.setdefault(posixpath.dirname(path), []).append(posixpath.basename(path))
        for folder in self._run_in:
            *way, last = folder.strip("/").split("/")
            for depth, name in enumerate((*way, last)):
                self.come.setdefault("/" + "/".join(way[:depth]), []).append(name)

    def looks_at(self, path: str) -> bool:
        """Whether a change of this path may matter; byte code (which the tests keep elsewhere) and our witness do
        not."""
        parts = path.split("/")
        if "__pycache__" in parts or parts[-1] == "00_hc_witness.pth":
            return False
        return _CODE.fullmatch(path) is not None or below(path, self._grounds) or self.holds(path)

    def was_to_stay(self, path: str) -> bool:
        """Whether this path may not change for a moment. Names come into folders (they end in a slash) honestly, but
        for those of modules, and of settings where each counts."""
        if path.endswith("/"):
            return below(path.rstrip("/"), self._modules) or self._start_up.takes_part(f"{path}any")
        return self.looks_at(path)

    def exchanged(self, late: set[str]) -> set[str]:
        """Folders of code in whose place another may have been for a moment: who moves one changes it and the one
        above. Names that come into one honestly change it alone."""
        folders = {path.rstrip("/") for path in late if path.endswith("/")}
        return {path for path in folders if posixpath.dirname(path) in folders and self.looks_at(path)}

    def moved(self, changes: Changes) -> set[str]:
        """What of the changes matters: of code that lies where nobody looks for more, what the image has."""
        return {*filter(self.holds, changes.added), *changes.changed, *changes.deleted}

    def holds(self, path: str) -> bool:
        """Whether even a new file at this path matters."""
        parts = path.split("/")
        folder = posixpath.dirname(path)
        parent = posixpath.dirname(folder)
        if path in self._files or folder in self._folders or self._start_up.takes_part(path):
            return True
        if folder in self._homes and (parts[-1] in self._settings or re.fullmatch(r"\..*rc", parts[-1])):
            return True
        if folder in self._run_in and parts[-1] in self._libraries:
            return True
        if any(top_module(path, at) in self._loaded and begins(path, at) for at in {folder, parent} & self._run_in):
            return True
        return below(path, self._modules)


async def _put_right(untouched: Gradable, contents: Contents, kept: Contents, image: Image) -> dict[str, Any]:
    """What isolated grading leaves behind: names that the image lacks go, what it has is put back. ``kept``: what is
    carried."""
    exists, members, removed = set(image.exists), set(kept.members), set(kept.deleted)
    left = [path for path in contents.members if path not in members and not below(path, TRANSIENT)]
    folders = set(contents.folders)
    remove = [path for path in left if path not in exists and path not in folders]
    gone = [path for path in contents.deleted if path not in removed and not below(path, TRANSIENT)]
    restore = {}
    for path in [*(path for path in left if path in exists and path not in folders), *gone]:
        content = await untouched.get(path, limit=64 << 20)
        if content is not None:
            restore[path] = [base64.b64encode(content).decode(), image.modes.get(path, 0o644)]
    return {"remove": remove, "restore": restore} if remove or restore else {}


def _tampered(paths: tuple[str, ...]) -> dict[str, Any]:
    detail = "what the tests stand on is not what the image has"
    return {"passed": False, "cause": "tampered", "witness": "absent", "tampered": paths[:200], "detail": detail}
