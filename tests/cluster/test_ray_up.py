"""docs/cluster.md, word by word, from a launcher that is no node, as a normal user."""

import contextlib
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hosts import UID, USER, WHEELS, Host, network
from tests.cluster.wheelhouse import checkout, wheelhouse
from tests.fakes.processes import ran, wait
from tests.fakes.sweeps import REPOSITORY, results
from tests.fakes.tasks import make_task

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

HOME = f"home/{USER}"
NODES = ("10.77.0.1", "10.77.0.2", "10.77.0.3")
GIVEN = {"192.0.2.10": NODES[0], "192.0.2.11": NODES[1], "192.0.2.12": NODES[2], "ubuntu #": f"{USER} #"}
"""What the page says to set in cluster.yaml."""
BUSY = 900
"""Seconds that a step may take on a machine of two cores on which others work too; a tenth where nobody does."""


class Launcher:
    """A machine with a checkout, whose user follows the page."""

    def __init__(self, host: Host, house: Path) -> None:
        self._host, self.folder = host, host.folder / HOME / "hc-ray"
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS), "UV_OFFLINE": "1"}
        host.environment |= {"PATH": "/usr/local/bin:/usr/bin:/bin", **index}
        checkout(self.folder)
        cache = self.folder.parent / ".cache"
        cache.mkdir()
        ran("cp", "-a", "--link", house / "cache", cache / "uv").check_returncode()
        ran("chown", "-R", f"{UID}:{UID}", self.folder, cache).check_returncode()

    def refused(self, words: str, given: str = "") -> str:
        """What ``hc-ray sweep`` says, in one line and within seconds, to what it cannot use."""
        began = time.monotonic()
        done = self._host.run(f"cd ~/hc-ray && {given} .venv/bin/hc-ray sweep -a raw -l 1 {words}", USER)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert time.monotonic() - began < 30  # Ray itself tries for a minute
        return str(done.stderr)

    def has_own_tasks(self) -> None:
        """``my-sweep.yaml`` and ``my-tasks``, in which the reference is graded: these hosts have no GPU to ask."""
        make_task(self.folder / "my-tasks")
        (self.folder / "my-sweep.yaml").write_text("dataset: my-tasks\nagents: [oracle]\n")
        ran("chown", "-R", f"{UID}:{UID}", self.folder / "my-tasks", self.folder / "my-sweep.yaml").check_returncode()

    def does(self, line: str) -> str:
        done = self._run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        return str(done.stdout)

    def shows(self, line: str, what: str) -> bool:
        """Whether it does now; for what is asked again and again, of which one may fail on a busy machine."""
        return what in self._run(line).stdout

    def _run(self, line: str) -> Any:
        return self._host.run(f"cd ~/hc-ray && {line}", USER, timeout=BUSY)


def _lines() -> list[str]:
    page = (REPOSITORY / "docs/cluster.md").read_text()
    return [line for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]


def test_the_page_on_clusters_leads_from_ray_up_over_a_dead_head_to_no_process_left():
    house = wheelhouse()
    given = _lines()
    prepare, up, nodes, sweep, status, report, files, log_of, *own, submit, job, job_logs, again, resume, down = given
    with network(4) as hosts:
        ran("cp", "-a", "--link", f"{house}/wheels/.", WHEELS).check_returncode()
        head, launcher = hosts[0], Launcher(hosts[3], house)
        runs = head.folder / HOME / "runs"
        launcher.does(prepare)
        text = (launcher.folder / "cluster.yaml").read_text()
        for before, after in GIVEN.items():
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        (launcher.folder / "cluster.yaml").write_text(text)

        def all_nodes() -> bool:
            return launcher.shows(nodes, "/3.0 engine_slot")  # the sweep that waits takes one at once

        launcher.does(up)
        launcher.does(sweep)  # at once: the workers are still installing
        wait(all_nodes, BUSY, "three nodes with an engine's slot each")
        assert "no Ray cluster responds at host1:6380" in launcher.refused("--address host1:6380")
        assert "this machine is not a node of the Ray cluster" in launcher.refused("--address host1:6379")
        (launcher.folder / "other").write_text("0" * 64)
        (launcher.folder / "other").chmod(0o644)
        wrong = launcher.refused("--address host1:6379", "RAY_AUTH_TOKEN_PATH=other")
        assert "refuses this machine's token; copy the head's to other" in wrong
        wait(lambda: results(runs / "first"), BUSY, "the first trial")
        planned = (head.folder / HOME / "first.log").read_text()
        assert all(f"{host.name} ({address}), slots: " in planned for host, address in zip(hosts, NODES, strict=False))
        head.power(on=False)
        kept = {name: result["finished_at"] for name, result in results(runs / "first").items()}
        shutil.rmtree(head.folder / "tmp")  # as machines do when they start
        head.power(on=True)
        launcher.does(again)
        wait(all_nodes, BUSY, "three nodes after the head died")
        launcher.does(resume)
        log = head.folder / HOME / "resumed.log"
        wait(lambda: "hc-ray report" in log.read_text(), BUSY, "the end of the resumed sweep")
        found = results(runs / "first")
        assert len(found) == 4 and all(result["verifier_result"] for result in found.values()), log.read_text()
        assert all(found[name]["finished_at"] == at for name, at in kept.items())
        assert "4 of 4 trials done" in launcher.does(status) and "blind pass" in launcher.does(report)

        second = GIVEN["192.0.2.11"]
        assert "worker" in launcher.does(files.replace("192.0.2.11", second))
        assert "raylet" in launcher.does(log_of.replace("192.0.2.11", second))

        launcher.has_own_tasks()
        told = [launcher.does(line) for line in own]
        assert "my-tasks" in told[2] and "1 to run" in told[2]
        log = head.folder / HOME / "mine.log"
        wait(lambda: "hc-ray report" in log.read_text(), BUSY, "the end of the sweep of own tasks")
        assert [result["verifier_result"]["rewards"] for result in results(runs / "mine").values()] == [{"reward": 1.0}]

        launcher.does(submit)
        wait(lambda: launcher.shows(job, "Job 'second' succeeded"), BUSY, "the job's end")
        assert "hc-ray report" in launcher.does(job_logs)
        assert [bool(result["verifier_result"]) for result in results(runs / "second").values()] == [True, True]
        assert all((host.folder / HOME / ".local/share/hc-ray/sandboxes/solve").is_dir() for host in hosts[:3])

        launcher.does(down)
        left = {}

        def ended() -> bool:
            left.update({host.name: host.pids() for host in hosts[:3]})
            return not any(left.values())

        with contextlib.suppress(AssertionError):
            wait(ended, 240, "the end of all processes")
        assert not any(left.values()), left
