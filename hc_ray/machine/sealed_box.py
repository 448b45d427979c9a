"""Secrets on their way to one process. It makes a key pair and keeps the private half in its memory; what is sealed
for the public half nobody else can open, so that it may pass through Ray's object store and lie in its spill files.

HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305. What many processes are sent is locked once by a key of
its own, and only that key is sealed for each of them."""

import functools
import json
import os
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hc_ray.domain import credentials
from hc_ray.domain.errors import ActorError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

_PURPOSE = b"hc-ray: from the driver to an actor"
_NONCE = 12


@functools.cache
def _own() -> "X25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate()


os.register_at_fork(after_in_child=_own.cache_clear)


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def public_half() -> bytes:
    """What others need to seal something for this process."""
    return _own().public_key().public_bytes_raw()


def seal(public: bytes, data: bytes) -> bytes:
    """``data`` for the process whose public half this is, and for nobody else."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _suite().encrypt(data, X25519PublicKey.from_public_bytes(public), info=_PURPOSE)


def opened(sealed: bytes) -> bytes:
    """What was sealed for this process. Raises ``ActorError`` for what was sealed for another or changed since."""
    from cryptography.exceptions import InvalidTag

    try:
        return _suite().decrypt(sealed, _own(), info=_PURPOSE)
    except (InvalidTag, ValueError):
        raise ActorError("this process was sent what is sealed for another one, or was changed on its way") from None


def new_key() -> bytes:
    return secrets.token_bytes(32)


def lock(key: bytes, data: bytes, name: str) -> bytes:
    """``data`` as only holders of ``key`` can read it, and only under its ``name``."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = secrets.token_bytes(_NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, data, name.encode())


def unlock(key: bytes, locked: bytes, name: str) -> bytes:
    """Raises ``ActorError`` for another key or name, and for what was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(locked[:_NONCE], locked[_NONCE:], name.encode())
    except (InvalidTag, ValueError):
        raise ActorError(f"what this process was sent as {name[:12]} was changed on its way") from None


class Addressee:
    """An actor that can be sent secrets."""

    async def public_key(self) -> bytes:
        return public_half()

    async def take_keys(self, sealed: bytes) -> None:
        """API keys for this process alone, by the environment variable that its config names (``keys_for``). They take
        the place of what this node happens to have there."""
        credentials.replace(json.loads(opened(sealed)))


def keys_for(public: bytes, names: Iterable[str]) -> bytes:
    """This process's values of environment variables, sealed for another; it is also told which of them are not set."""
    return seal(public, json.dumps({name: os.environ.get(name) for name in names}).encode())
