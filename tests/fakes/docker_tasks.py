"""Tasks with environment files, laid out as the vault lays them out under a public root."""

import hashlib
from pathlib import Path

from hc_ray.domain.task import Environment, Task
from hc_ray.tasks.dockerfile import parse_dockerfile

PLAIN = "FROM debian:bookworm-slim\nWORKDIR /app\nENV GREETING=hello\nCOPY data.txt .\n"


def task_with_environment(
    public_root: Path, files: dict[str, bytes] | None = None, *, dockerfile: str | None = PLAIN,
    docker_image: str | None = None, **environment: object,
) -> Task:  # fmt: skip
    """A task whose digest is that of its files, so that equal environments share one image."""
    files = {"data.txt": b"given\n"} if files is None else files
    whole = {**files, **({"Dockerfile": dockerfile.encode()} if dockerfile is not None else {})}
    digest = hashlib.sha256(repr((sorted(whole.items()), docker_image)).encode()).hexdigest()
    folder = public_root / digest / "environment"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in whole.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    workdir = parse_dockerfile(dockerfile, files=files).workdir if dockerfile is not None else None
    values = {"dockerfile": dockerfile, "docker_image": docker_image, "workdir": workdir or "", **environment}
    return Task(name="t", digest=digest, instruction="x", environment=Environment.model_validate(values))
