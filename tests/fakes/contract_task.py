"""The task and the small helpers of the suites that hold every sandbox to the words of ``ports.Sandbox``."""

import hashlib

from hc_ray.domain.ports import Sandbox
from hc_ray.domain.runner_paths import RUNNER_PYTHON
from hc_ray.domain.task import Copy, Environment, Task

DOCKERFILE = (
    "FROM python:3.11-slim-bookworm\nWORKDIR /app\nENV GREETING=hello\nCOPY data.txt ./\nCOPY more /opt/more/\n"
)
COPIES = Copy(sources=("data.txt",), destination="/app/"), Copy(sources=("more",), destination="/opt/more/")
TASK = Task(
    name="contract", digest=hashlib.sha256(DOCKERFILE.encode()).hexdigest(), instruction="",
    environment=Environment(dockerfile=DOCKERFILE, base="python:3.11-slim-bookworm", env={"GREETING": "hello"},
                            copies=COPIES),
)  # fmt: skip


async def shell(box: Sandbox, text: str) -> str:
    done = await box.exec(["sh", "-c", text], timeout=20)
    assert done.exit_code == 0, done
    return done.stdout.decode()


async def python(box: Sandbox, text: str, timeout: float = 20.0) -> str:
    done = await box.exec([*RUNNER_PYTHON, "-c", text], timeout=timeout)
    assert done.exit_code == 0, done
    return done.stdout.decode()
