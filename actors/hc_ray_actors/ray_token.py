"""The token that Ray's ports ask for."""

import hmac
import os
import secrets
import stat
import tempfile
from pathlib import Path

from hc_ray.domain.errors import PlatformError
from hc_ray.machine.paths import data_root


def token_file() -> Path:
    """The token's file, made once: mode 0600 in a folder of mode 0700 (Ray's own would be 0644). Raises
    ``PlatformError`` for a token that others could read, or that is none: it protects nothing."""
    folder = data_root() / "keys"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    owned = folder.lstat()
    if not stat.S_ISDIR(owned.st_mode) or owned.st_uid != os.geteuid():
        raise PlatformError(f"{folder} is not a folder of this user; move it away, and hc-ray will create a new one")
    if stat.S_IMODE(owned.st_mode) != 0o700:
        folder.chmod(0o700)
    path = folder / "ray_token"
    if not os.path.lexists(path):
        _make(path)
    found = path.lstat()
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if not own or found.st_mode & 0o077 or found.st_size < 32:
        raise PlatformError(
            f"{path} holds no token that only this user can read (mode {stat.S_IMODE(found.st_mode):04o}); remove it, "
            "and hc-ray will create a new one (then restart clusters that use it)"
        )
    return path


def own_token_path() -> Path:
    """Where this process looks for the token that it shows to a cluster."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or data_root() / "keys/ray_token")


def own_token() -> str:
    """The token that this process shows to a cluster, which may be another's than hc-ray's own. Raises
    ``PlatformError`` where this node has none."""
    try:
        return os.environ.get("RAY_AUTH_TOKEN") or own_token_path().read_text().strip()
    except OSError as fault:
        raise PlatformError(f"this node has no token of its Ray cluster ({fault}); copy the head's there") from None


def derived_key(name: str) -> str:
    """A key that every process with the cluster's token can work out, and nobody else: only ``name`` travels. Raises
    ``PlatformError`` where this node has no token."""
    return hmac.new(own_token().encode(), name.encode(), "sha256").hexdigest()


def _make(path: Path) -> None:
    """Whole or not at all, whoever else makes it at the same time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_hex(32))
        Path(path).hardlink_to(name)
    except FileExistsError:
        return
    finally:
        Path(name).unlink()
