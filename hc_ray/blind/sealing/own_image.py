"""A verifier with its own image (Harbor's ``separate`` mode)."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hc_ray.blind.sealing.tree import Entry
from hc_ray.blind.sealing.variables import resolved_here
from hc_ray.domain.filetree import is_outside
from hc_ray.domain.task import Environment
from hc_ray.domain.value import Value
from hc_ray.tasks.dockerfile import ParsedDockerfile, parse_dockerfile
from hc_ray.tasks.task_sections import Artifact, EnvironmentSection, Fault, ParsedTaskToml

COMPOSE_FILE = "docker-compose.yaml"
"""The one name by which Harbor knows it: what is called otherwise is a file like others."""


class OwnImage(Value):
    """The verifier's image, and the artefacts to transfer to it."""

    environment: Environment
    artifacts: tuple[Artifact, ...] = ()
    """With absolute sources, as far as the task names its workdir."""


def own_image(sealed: Path, parsed: ParsedTaskToml, tests: tuple[Entry, ...], workdir: str) -> OwnImage | list[Fault]:
    """The verifier's own image (``[verifier.environment] docker_image``, else ``tests/Dockerfile``), or what is wrong
    with it or not supported. ``workdir``: of the task, for sources that are relative."""
    faults: list[Fault] = []
    files = {entry.path for entry in tests}
    try:
        section = EnvironmentSection.model_validate(parsed.verifier.environment or {})
    except ValidationError as error:
        says = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        return [Fault(field="verifier.environment", says=says, remedy="correct it")]
    for says in _unsupported(section, files):
        faults.append(Fault(field="verifier.environment", says=says, remedy="grade in the task's own image"))
    text, docker = None, ParsedDockerfile()
    if "Dockerfile" in files and section.docker_image is None:
        text = (sealed / "tests" / "Dockerfile").read_text(errors="replace")
        docker = parse_dockerfile(text, files=sorted(files))
    made = environment_of(section, text, docker, faults, file="tests/Dockerfile", key="verifier.environment")
    artifacts = [_absolute(one, workdir) if workdir else one for one in parsed.artifacts]
    faults += [fault for one in artifacts for fault in _refusals(one)]
    return faults or OwnImage(environment=made, artifacts=tuple(artifacts))


def environment_of(
    section: EnvironmentSection, text: str | None, docker: ParsedDockerfile, faults: list[Fault], *, file: str, key: str
) -> Environment:
    """What a container is made of, with the faults of that; ``file`` and ``key``: what Dockerfile and section are
    called. The workdir is the section's, else the Dockerfile's WORKDIR; where both are silent it is the image's own,
    which nobody knows before the image is there."""
    if docker.unsupported:
        faults.append(Fault(field=file, says=docker.unsupported, remedy="rewrite it without that instruction"))
    env = resolved_here(f"{key}.env", section.env, faults)
    network: Any = {None: "unmentioned", "no-network": "none"}.get(section.network_mode, section.network_mode)
    made = Environment(
        docker_image=section.docker_image,
        dockerfile=text,
        base=docker.base or section.docker_image,
        workdir=section.workdir or docker.workdir or "",
        env=env,
        copies=docker.copies,
        run_steps=docker.run_steps,
        volumes=docker.volumes,
        network=network,
        **section.model_dump(include={"cpus", "memory_mb", "storage_mb", "gpus", "build_timeout_sec"}),
    )
    # What stands before the first WORKDIR goes to where the base image has its own, which is mostly the root.
    return made.model_copy(update={"copies": tuple(copy.below("/") for copy in made.copies)}) if made.workdir else made


def _unsupported(section: EnvironmentSection, files: set[str]) -> list[str]:
    asked = {
        "several services": COMPOSE_FILE in files,
        "a host allowlist": section.network_mode == "allowlist",
        "GPUs": bool(section.gpus),
        "a Windows container": section.os == "windows",
    }
    return [f"a verifier with {what} is not supported" for what, found in asked.items() if found]


def _absolute(artifact: Artifact, workdir: str) -> Artifact:
    if artifact.source.startswith("/"):
        return artifact
    return artifact.model_copy(update={"source": f"{workdir.rstrip('/')}/{artifact.source}"})


def _refusals(artifact: Artifact) -> list[Fault]:
    remedy = "name a file or folder in the task's own container, outside its mounts"
    if artifact.service not in (None, "main"):
        return [Fault(field="artifacts", says=f"service {artifact.service} is not supported", remedy=remedy)]
    if ".." in artifact.source.split("/") or is_outside(artifact.source):
        return [Fault(field="artifacts", says=f"{artifact.source} can never be part of a submission", remedy=remedy)]
    return []
