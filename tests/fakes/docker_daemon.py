"""A Docker daemon of a test's own, which it may stop: own socket, own data, no bridge, the images of the real one."""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

STOP_SECONDS = 1
"""What its containers get to end when it is told to stop."""


class OwnDaemon:
    def __init__(self, folder: Path, inside: Sequence[str] = ("unshare", "--net")) -> None:
        """``inside``: what starts a program where it is to run. By default in a network of its own: a daemon without a
        bridge removes docker0, which is the real daemon's."""
        self._folder, self._inside = folder, inside
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self._folder}/s"

    def start(self) -> None:
        folder = self._folder
        (folder / "settings").write_text("{}")  # not the machine's own
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, "dockerd", "--config-file", folder / "settings", "--data-root", folder / "data",
                 "--pidfile", folder / "pid", "--exec-root", folder / "run", "--host", self.host, "--bridge", "none",
                 "--iptables=false", "--shutdown-timeout", str(STOP_SECONDS)],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 60
        while self.docker("version").returncode:
            if self._process.poll() is not None or time.monotonic() > until:
                said = (folder / "log").read_text(errors="replace")
                raise RuntimeError(f"the test's own dockerd does not start:\n{said[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it and its containers, and wait until it is gone."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def load(self, *images: str) -> None:
        save = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        subprocess.run(["docker", "--host", self.host, "load"], stdin=save.stdout, check=True, capture_output=True)
        if save.wait():
            raise RuntimeError(f"docker save {' '.join(images)} failed")

    def docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["docker", "--host", self.host, *words], capture_output=True, text=True, timeout=60)

    def containers(self) -> list[str]:
        return self.docker("ps", "-aq").stdout.split()

    def remove(self) -> None:
        self.stop()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((place for place in mounts if place.startswith(f"{self._folder}/")), reverse=True):
            subprocess.run(["umount", "--quiet", "--lazy", place], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def may_run() -> bool:
    return os.geteuid() == 0 and None not in (shutil.which("dockerd"), shutil.which("unshare"))
