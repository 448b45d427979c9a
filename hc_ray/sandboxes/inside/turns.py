"""Several states of one file system take turns, where a sandbox cannot be forked: what a state differs in from the
untouched one is packed away, and brought back when its turn comes. Processes are nobody's state: they run on, and end
by the mark of the state that started them.

Started afresh for every order, which is the first argument: ``@PATH`` of a file, or the same as Base64, of compressed
bytes that hold one line of JSON and then data. The answer is of the same form, between ``<hc:`` and ``:hc>`` on the
standard output. Standard library only.

What the system's folders held is not kept: of them only what was added is taken away again."""

import base64
import contextlib
import filecmp
import io
import json
import marshal
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hc_ray.sandboxes.inside import processes
from hc_ray.sandboxes.inside.originals import Facts, clear, facts, put_back, remove

MARK = "HC_TURN"
"""The environment variable that says for which state a process was started."""
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/boot/")
DELETED = ".hc-ray-deleted.json"
KEPT_BYTES = 1 << 30
"""Of originals; files beyond are not kept."""
INLINE = 200_000
"""Characters of an answer that is printed; a longer one is left in a file."""

Told = tuple[dict[str, Any], bytes]


class Turns:
    """One order, and the file system as it was when the first state began. What an order answers is ``Told``; nothing
    where there is nothing to tell."""

    def __init__(self, room: str, data: bytes) -> None:
        self.room, self.data, self.kept = room, data, os.path.join(room, "kept")
        self.outside: list[str] = []
        self.before: dict[str, Facts] = {}

    # Orders

    def begin(self, outside: list[str], workdir: str) -> None:
        """Look at everything but ``outside`` and what is mounted, and keep the originals."""
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        self.outside = [*outside, *(path for path in mounts if path != "/")]
        self.before = dict(self.walk())
        left = KEPT_BYTES
        for path in sorted(self.before, key=lambda path: (not path.startswith(f"{workdir}/"), path)):
            kind, size = self.before[path][0], self.before[path][4]
            if kind == "file" and not path.startswith(SYSTEM) and size <= left:
                os.makedirs(os.path.dirname(self.kept + path), exist_ok=True)
                shutil.copyfile(path, self.kept + path)
                left -= size
        Path(self.room, "manifest").write_bytes(marshal.dumps((self.outside, self.before)))

    def turn(self, save: str | None, load: str | None, scratch: list[str]) -> None:
        """Pack the present state away as ``save`` and bring back ``load`` (``given``: the data; None: the untouched
        state). ``scratch``: what the runs of a suite leave."""
        if save is not None:
            self.pack(os.path.join(self.room, save))
        if load == "given":
            Path(self.room, load).write_bytes(self.data)
        self.become(os.path.join(self.room, load) if load else None)
        for path in scratch:
            remove(path)

    def end(self, marks: list[str]) -> None:
        """Kill what states have started that are no more."""
        wanted = {f"{MARK}={mark}".encode() for mark in marks}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just gone
                if not wanted.isdisjoint((process / "environ").read_bytes().split(b"\0")):
                    os.kill(int(process.name), signal.SIGKILL)

    def difference(self, limit: int) -> Told:
        with tempfile.NamedTemporaryFile(dir=self.room) as file:
            self.pack(file.name, limit)
            return {}, Path(file.name).read_bytes()

    def put(self) -> None:
        """Write the members of a tar."""
        with tarfile.open(fileobj=io.BytesIO(self.data)) as tar:
            for info in tar:
                write(f"/{info.name}", info, tar)

    def get(self, path: str, limit: int) -> Told:
        if not os.path.isfile(path):
            return {"absent": True}, b""
        with Path(path).open("rb") as file:
            return {}, file.read(limit)

    def execute(self, argv: list[str], cwd: str, env: dict[str, str], timeout: float, limit: int, mark: str) -> Told:
        """Run a command; past its time all that it started ends."""
        processes.adopt_orphans()
        began = time.monotonic()
        code: int | None = None
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                child = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.PIPE, stdout=out, stderr=err,
                                         env={**os.environ, **env, MARK: mark}, start_new_session=True)  # fmt: skip
                child.communicate(self.data, timeout=timeout)
                code = child.returncode if child.returncode >= 0 else 128 - child.returncode
            except subprocess.TimeoutExpired:
                processes.kill_below(2.0, child.poll, alone=False)
            except OSError as error:
                code = 127
                err.write(f"hc: {error}\n".encode())
            streams = []
            for stream in (out, err):
                stream.seek(0)
                streams.append(stream.read(limit + 1))
        told = {"exit": code, "seconds": time.monotonic() - began, "cut": any(len(one) > limit for one in streams)}
        return {**told, "stdout": len(streams[0][:limit])}, b"".join(one[:limit] for one in streams)

    # States

    def walk(self) -> Iterator[tuple[str, Facts]]:
        closed, front = frozenset(self.outside), ["/"]
        while front:
            with contextlib.suppress(FileNotFoundError), os.scandir(front.pop()) as entries:
                for entry in entries:
                    if entry.path in closed or (known := facts(entry.path)) is None or known[0] == "other":
                        continue
                    yield entry.path, known
                    if known[0] == "folder":
                        front.append(entry.path)

    def changes(self) -> tuple[list[str], list[str]]:
        """What is new or not as it was, folders before what they hold; and what is gone."""
        self.outside, self.before = marshal.loads(Path(self.room, "manifest").read_bytes())
        now = dict(self.walk())
        return sorted(path for path in now if not self.same(path, now[path])), sorted(set(self.before) - set(now))

    def same(self, path: str, now: Facts) -> bool:
        was = self.before.get(path)
        if was is None or was[:4] != now[:4] or was[7] != now[7]:
            return False
        if now[0] != "file" or was[4:7] == now[4:7]:
            return True
        kept = self.kept + path
        return was[4] == now[4] and os.path.exists(kept) and filecmp.cmp(path, kept, shallow=False)

    def pack(self, to: str, limit: int | None = None) -> None:
        """Write what differs into a tar. Raises ``OSError`` where it holds more than ``limit`` bytes."""
        changed, gone = self.changes()
        if limit is not None and sum(known[4] for path in changed if (known := facts(path))) > limit:
            raise OSError(f"the changes hold more than {limit} bytes")
        listing, info = json.dumps(gone).encode(), tarfile.TarInfo(DELETED)
        info.size = len(listing)
        with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as tar:
            tar.addfile(info, io.BytesIO(listing))
            for path in changed:
                tar.inodes.clear()  # type: ignore[attr-defined] # each name of a file is packed with its content
                with contextlib.suppress(FileNotFoundError):  # a process has just taken it away
                    tar.add(path, path.lstrip("/"), recursive=False)

    def become(self, target: str | None) -> None:
        """From the state that is there to the one of a tar; None: the untouched one."""
        changed, gone = self.changes()
        if target is None:
            return self._undo(changed, gone)
        with tarfile.open(target) as tar:
            members = {f"/{info.name}": info for info in tar}
            listed = members.pop(f"/{DELETED}", None)
            file = tar.extractfile(listed) if listed else None
            wanted = set(json.load(file)) if file else set()
            self._undo([path for path in changed if path not in members], [path for path in gone if path not in wanted])
            for path in wanted:
                remove(path)
            for path, info in members.items():
                write(path, info, tar)

    def _undo(self, changed: list[str], gone: list[str]) -> None:
        """Take away what was added, put back what was there."""
        for path in reversed(changed):
            if path not in self.before:
                remove(path)
        for path in sorted({path for path in changed if path in self.before} | set(gone)):
            was, kept = self.before[path], self.kept + path
            if was[0] != "file" or os.path.exists(kept):
                put_back(path, was, kept)


def write(path: str, info: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
    """Put a member of a tar there; one that lies there already keeps its time."""
    file = tar.extractfile(info) if info.isreg() else None
    data = file.read() if file else b""
    now = facts(path)
    if now is not None and now[1:4] == (info.mode, info.uid, info.gid):
        if (now[0] == "folder" and info.isdir()) or (now[0] == "link" and info.issym() and now[7] == info.linkname):
            return
        if now[0] == "file" and info.isreg() and now[4] == info.size and Path(path).read_bytes() == data:
            return
    clear(path, keep_folder=info.isdir())
    tar.extraction_filter = lambda member, _: member  # it is of this environment's own making
    tar.extract(info, "/", numeric_owner=True)


def main() -> None:
    given = sys.argv[1]
    packed = Path(given[1:]).read_bytes() if given.startswith("@") else given.encode()
    line, _, data = zlib.decompress(base64.b64decode(packed)).partition(b"\n")
    order = json.loads(line)
    do = getattr(Turns(order.pop("room"), data), order.pop("do"))
    try:
        told, answer = do(**order) or ({}, b"")
    except OSError as error:
        told, answer = {"fault": str(error)}, b""
    text = base64.encodebytes(zlib.compress(json.dumps(told).encode() + b"\n" + answer)).decode()
    if len(text) > INLINE:
        with tempfile.NamedTemporaryFile("w", prefix=".hc-", delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        text = f"@{file.name}"
    print(f"<hc:{text}:hc>")
