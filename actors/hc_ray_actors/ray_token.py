"""The authentication token of Ray's ports."""

import hmac
import os
import secrets
import stat
import tempfile
from pathlib import Path

from hc_ray.domain.errors import PlatformError
from hc_ray.machine.paths import data_root


def token_file() -> Path:
    """The token's file, created once, with mode 0600 in a folder of mode 0700 (Ray's own would be 0644). Raises
    ``PlatformError`` for a token that others could read, or an empty one, since it would protect nothing."""
    folder = data_root() / "keys"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    owned = folder.lstat()
    if not stat.S_ISDIR(owned.st_mode) or owned.st_uid != os.geteuid():
        raise PlatformError(f"{folder} does not belong to this user; move it away, and hc-ray will create a new one")
    if stat.S_IMODE(owned.st_mode) != 0o700:
        folder.chmod(0o700)
    path = folder / "ray_token"
    if not os.path.lexists(path):
        _make(path)
    found = path.lstat()
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if not own or found.st_mode & 0o077 or found.st_size < 32:
        raise PlatformError(
            f"{path} has no token that only this user can read (mode {stat.S_IMODE(found.st_mode):04o}); remove it, "
            "and hc-ray will create a new one (then restart clusters that use it)"
        )
    return path


def own_token_path() -> Path:
    """The file with the token that this process presents to a cluster."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or data_root() / "keys/ray_token")


def own_token() -> str:
    """The token that this process presents to a cluster, possibly not hc-ray's own. Raises ``PlatformError`` if this
    node has none."""
    try:
        return os.environ.get("RAY_AUTH_TOKEN") or own_token_path().read_text().strip()
    except OSError as fault:
        raise PlatformError(f"this node has no token of its Ray cluster ({fault}); copy the head's there") from None


def derived_key(name: str) -> str:
    """A key that only processes with the cluster's token can derive, so that only ``name`` need be sent. Raises
    ``PlatformError`` if this node has no token."""
    return hmac.new(own_token().encode(), name.encode(), "sha256").hexdigest()


def _make(path: Path) -> None:
    """Create the token's file atomically, even if others do so at the same time."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(secrets.token_hex(32))
        Path(path).hardlink_to(name)
    except FileExistsError:
        return
    finally:
        Path(name).unlink()
