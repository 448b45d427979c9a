"""What a package index would give to hosts, which have no network: made once for a uv.lock, outside of the checkout."""

import hashlib
import os
import shutil
from pathlib import Path

from tests.cluster.hosts import UID
from tests.fakes.processes import ran
from tests.fakes.sweeps import REPOSITORY

KEPT = Path("/var/tmp/hc-ray-wheelhouse")
"""Owned by the hosts' normal user: uv writes into its cache, which hosts get as links to this one."""


def wheelhouse() -> Path:
    """A folder with ``wheels`` for pip and a ``cache`` for uv, with all that nodes and the launcher install."""
    folder = KEPT / hashlib.sha256((REPOSITORY / "uv.lock").read_bytes()).hexdigest()[:12]
    if not folder.exists():
        shutil.rmtree(KEPT, ignore_errors=True)
        (scratch := KEPT / "scratch").mkdir(parents=True)
        checkout(scratch / "checkout")
        ran("chown", "-R", f"{UID}:{UID}", KEPT).check_returncode()
        _as_user(scratch, "scripts/install", "--cluster")
        download = ["/usr/bin/python3", "-m", "pip", "download", "-d", "../wheels"]
        _as_user(scratch, *download, "-r", "dist/cluster/constraints.txt", "uv")
        shutil.rmtree(scratch / "checkout")
        scratch.rename(folder)
    return folder


def checkout(folder: Path) -> None:
    """A clone of this checkout as it is, what is not committed included."""
    listed = ran("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY, check=True)
    names = "".join(f"{name}\0" for name in listed.stdout.split("\0") if (REPOSITORY / name).is_file() and name)
    copy = ["rsync", "-a", "--from0", "--files-from=-", f"{REPOSITORY}/", f"{folder}/"]
    ran(*copy, input=names).check_returncode()


def _as_user(scratch: Path, *words: object) -> None:
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    own = {"HOME": str(scratch), "UV_CACHE_DIR": str(scratch / "cache"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = ran(*become, *words, cwd=scratch / "checkout", env={**os.environ, **own}, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
