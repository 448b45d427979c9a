import os
import subprocess
import sys

from hc_ray.machine.owner import current_owner, is_alive


def test_this_process_is_alive_the_next_holder_of_its_number_another_and_a_malformed_name_nobodys():
    owner = current_owner()
    assert owner == current_owner() and owner.startswith(f"{os.getpid()}-")
    assert is_alive(owner) and is_alive(f"{owner}-solve")
    number, start = current_owner().split("-")
    assert not is_alive(f"{number}-{int(start) + 1}")
    assert not any(is_alive(name) for name in ("", "-", "1", "x-1", "1-x", "12--3", "users", f"{os.getpid()}-"))


def test_a_process_that_ended_is_dead_even_before_it_is_collected() -> None:
    script = "from hc_ray.machine.owner import current_owner; print(current_owner())"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    owner = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(owner)
    child.wait()
    child.stdout.close()
    assert not is_alive(owner)
