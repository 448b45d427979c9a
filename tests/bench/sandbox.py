"""``scripts/bench sandbox``: oracle trials of a trivial Docker task against the same container work done by plain
docker commands, interleaved in one run. Isolated grading is held against two containers a trial, shared against one."""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from hc_ray.domain.config import SweepConfig
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from tests.fakes.listeners import Watcher
from tests.fakes.sandbox_home import open_folder
from tests.fakes.tasks import make_task

TEST_SH = """#!/bin/bash
echo 0 > /logs/verifier/reward.txt
if [ "$(cat /app/answer.txt)" = 42 ]; then echo 1 > /logs/verifier/reward.txt; fi
"""
SOLVE_SH = "#!/bin/bash\necho 42 > /app/answer.txt\n"
INSTRUCTION = "Write the number forty-two, in digits, into the file answer.txt.\n"
LIMITS = ("--init", "--network", "none", "--cpus", "1", "--memory", "512m", "--security-opt", "no-new-privileges")


async def docker(*words: str, stdin: bytes = b"") -> bytes:
    """One docker command, as a person would type it. Raises ``RuntimeError`` when it fails."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("docker", *words, stdin=pipe, stdout=pipe, stderr=pipe)
    out, err = await process.communicate(stdin)
    if process.returncode:
        raise RuntimeError(f"docker {' '.join(words)}: {err.decode(errors='replace').strip()}")
    return out


async def _begun(image: str) -> str:
    return (await docker("run", "-d", *LIMITS, image, "sleep", "600")).decode().strip()


async def _graded(container: str, task: Path) -> None:
    await docker("cp", str(task / "tests"), f"{container}:/tests")
    await docker("exec", container, "bash", "-c", "mkdir -p /logs/verifier && bash /tests/test.sh")
    if (await docker("exec", container, "cat", "/logs/verifier/reward.txt")).strip() != b"1":
        raise RuntimeError("the plain commands did not earn the reward")


async def plain_isolated(image: str, task: Path) -> None:
    """Two containers: solve in one, take /app out of it, grade in a fresh one."""
    first = await _begun(image)
    await docker("cp", str(task / "solution"), f"{first}:/solution")
    await docker("exec", first, "bash", "/solution/solve.sh")
    await docker("diff", first)
    files = await docker("cp", f"{first}:/app", "-")
    await docker("rm", "-f", first)
    second = await _begun(image)
    await docker("cp", "-", f"{second}:/", stdin=files)
    await _graded(second, task)
    await docker("rm", "-f", second)


async def plain_shared(image: str, task: Path) -> None:
    """One container: solve and grade in it."""
    only = await _begun(image)
    await docker("cp", str(task / "solution"), f"{only}:/solution")
    await docker("exec", only, "bash", "/solution/solve.sh")
    await _graded(only, task)
    await docker("rm", "-f", only)


async def _all(trials: int, at_once: int, one: Callable[[], Awaitable[None]]) -> None:
    turn = asyncio.Semaphore(at_once)

    async def held() -> None:
        async with turn:
            await one()

    await asyncio.gather(*(held() for _ in range(trials)))


def ours(folder: Path, grading: str, trials: int, at_once: int, number: int) -> float:
    """Seconds of a sweep of oracle trials, planning and start of actors excluded (there is no Ray in it)."""
    out = folder / f"out-{grading}-{number}"
    slots = {"seeds": trials, "concurrency": at_once, "sandbox_slots": at_once}
    settings = {"dataset": str(folder / "tasks"), "agents": ("oracle",), "sandbox": "docker", "grading": grading}
    plan = prepare(SweepConfig.model_validate({**settings, **slots, "out": str(out), "mlflow_uri": "none"}))
    began = time.perf_counter()
    summary = sweep.run(plan, events=Watcher(), cluster=Cluster())
    seconds = time.perf_counter() - began
    report = json.loads((Path(plan.out) / "report.json").read_text())
    rates = [config["blind_pass"]["value"] for config in report["configs"]]
    if (summary.done, summary.unscored, rates) != (trials, 0, [1.0]):
        raise RuntimeError(f"{summary.done} trials, {summary.unscored} unscored, pass rates {rates}")
    return seconds


def measure(rounds: int, trials: int, at_once: int) -> dict[str, object]:
    """Interleaved rounds; every ratio is ours over plain within one round."""
    with open_folder() as folder:
        dockerfile = "FROM debian:bookworm-slim\nWORKDIR /app\n"
        parts = {"tests": {"test.sh": TEST_SH}, "solution": {"solve.sh": SOLVE_SH}}
        task = make_task(folder / "tasks", "trivial", instruction=INSTRUCTION, dockerfile=dockerfile, **parts)
        image = "hc-bench-plain"
        asyncio.run(docker("build", "-q", "-t", image, str(task / "environment")))
        ours(folder, "isolated", 1, 1, -1)  # builds the task's image and whatever else is built once
        ways = (("isolated", "plain_two", plain_isolated), ("shared", "plain_one", plain_shared))
        seconds: dict[str, list[float]] = {name: [] for way in ways for name in way[:2]}
        for number in range(rounds):
            for grading, name, plain in ways:
                began = time.perf_counter()
                asyncio.run(_all(trials, at_once, lambda plain=plain: plain(image, task)))  # type: ignore[misc]
                seconds[name].append(time.perf_counter() - began)
                seconds[grading].append(ours(folder, grading, trials, at_once, number))
        asyncio.run(docker("rmi", "-f", image))
        ratios = {grading: [a / b for a, b in zip(seconds[grading], seconds[name], strict=True)]
                  for grading, name, _ in ways}  # fmt: skip
        return {"trials": trials, "at_once": at_once, "seconds": seconds, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench sandbox", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.rounds, given.trials, given.at_once)
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.trials} oracle trials of a trivial Docker task, {given.at_once} at once, {given.rounds} rounds")
    for name, seconds in found["seconds"].items():  # type: ignore[attr-defined]
        print(f"{name:>10}: median {statistics.median(seconds):.2f} s  ({', '.join(f'{one:.2f}' for one in seconds)})")
    for name, ratios in found["ratios"].items():  # type: ignore[attr-defined]
        told = f"median {statistics.median(ratios):.2f} (target 1.5), {min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name:>10} / plain: {told}")


if __name__ == "__main__":
    sys.exit(main())
