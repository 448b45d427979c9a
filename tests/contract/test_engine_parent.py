"""An engine never outlives whoever started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hc_ray.engines import catalogue

_STARTER = """
import sys, threading, time
from hc_ray.engines.embedded import EmbeddedServer
server = EmbeddedServer(sys.argv[1], parallel=1, context_tokens=256, log_path=sys.argv[2])
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(server.pid, flush=True)
time.sleep(600)
"""


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_an_engine_outlives_the_thread_that_started_it_but_not_the_process(tmp_path: Path) -> None:
    weights = catalogue.pull("smollm2-135m-instruct")
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, str(weights), str(tmp_path / "log")],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    pid = int(starter.stdout.readline())
    time.sleep(1.0)
    assert not _ended(pid)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 5
    while not _ended(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    starter.stdout.close()
    assert _ended(pid)
