import json
import os
import subprocess
import sys

import pytest

from hc_ray.domain.events import RAY_INSIDE
from hc_ray.machine import processor_use
from hc_ray.machine.processor_use import ORPHANS, SANDBOXES, Process, ProcessorMeter
from hc_ray.reports.engine_use import engine_lines, engine_use
from tests.fakes.sweepdir import MemoryStore

SPEED = {"knee": 8, "completion_tokens_per_second": 100.0, "prompt_tokens_per_second": 200.0, "measured": ""}


def account(at, **more):
    return {"type": "engine_use", "trial": "", "at": at, "engine": "m", "slots": 2, "seconds": 10.0, "busy": 15.0,
            "queued": 5.0, "waited": {"sandbox": 5.0}, "requests": 9, "prompt_tokens": 600, "cached_tokens": 200,
            "completion_tokens": 500, **more}  # fmt: skip


def stored(*events):
    store = MemoryStore()
    lines = [json.dumps(event, separators=(",", ":")) for event in events]
    store.write("events/000000.jsonl", ("\n".join(lines) + "\n{half a line\n").encode())
    return store


def test_use_is_tokens_over_the_knees_but_for_reused_answers_and_the_end_with_fewer_trials_than_slots():
    reused = account(20.0, reused=3, reused_tokens=2400)
    found = engine_use(stored(account(10.0), reused), {"speeds": {"m": SPEED}})
    assert found is not None
    (one,) = found["engines"]
    assert one["use"] == pytest.approx((1000 / 100 + 800 / 200) / 20)
    assert (one["busy"], one["waited"]) == (0.75, {"sandbox": 0.25})
    told = engine_lines(found)[0]
    assert "use 0.70 of 100 answer tokens/s" in told and "In 20 s: 18 answers" in told
    assert "3 further requests of 2,400 tokens repeated earlier ones of the sweep and reused their answers." in told
    ends = [{"type": "trial_complete", "trial": f"t{n}", "at": 10.0 + n} for n in range(3)]
    idle = account(60.0, completion_tokens=0, busy=0.0, waited={"trials": 20.0})
    found = engine_use(stored(account(10.0), *ends, idle), {"planned_trials": 3, "speeds": {}})
    assert found is not None and found["engines"][0]["seconds"] == 10.0


@pytest.mark.parametrize("clock", [0.0, -3600.0, 3600.0], ids=["", "and the clock is set back", "or forward"])
def test_what_was_begun_of_answers_that_came_after_the_window_counts_in_part(clock):
    ends = [{"type": "trial_complete", "trial": f"t{n}", "at": 10.0 + n + clock * (n > 1)} for n in range(3)]
    at_once = (10.0, 0.0, 70, 70)
    late = account(20.0 + clock, across=((4.0, 16.0, 200, 400), (9.0, 1.0, 50, 50), at_once))
    found = engine_use(stored(account(10.0), *ends, late), {"planned_trials": 3, "speeds": {"m": SPEED}})
    assert found is not None
    # Of 16 s that ended at 16.0 ten lay before 10.0; the second answer was begun at 10.0, and the last took no time.
    assert found["engines"][0]["use"] == pytest.approx(((500 + 250) / 100 + (400 + 125) / 200) / 10)
    # What is told beside the use comes to the use.
    told = "In the 10 s until fewer trials remained than slots: 9 answers, and with those under way 75 answer tokens/s"
    assert f"{told} and 52 prompt tokens/s, 200 prompt tokens cached. Its" in engine_lines(found)[0]


def test_without_a_measured_speed_the_use_is_unknown_and_the_time_of_hc_ray_itself_is_told_apart():
    found = engine_use(stored(account(10.0)), {})
    assert found is not None and found["engines"][0]["use"] is None
    assert "hc-ray engine bench" in engine_lines(found)[0]
    assert engine_use(stored(), {}) is None
    used = {"engine": 15.0, "driver": 0.5, "actor Trials": 0.3, "tests and commands": 3.0, RAY_INSIDE: 0.2}
    span = {"type": "processor_use", "trial": "", "at": 1.0, "seconds": 10.0, "cores": 2, "used": used}
    found = engine_use(stored(account(10.0), span), {})
    assert found is not None and found["processors"]["own"] == pytest.approx(0.08)
    assert "hc-ray itself 0.08, 0.10 with Ray's threads in its processes." in engine_lines(found)[1]


METERED = """
import json, subprocess, sys, time
from hc_ray.machine.processor_use import ProcessorMeter
busy = "import time, sys\\nwhile time.process_time() < 0.5: pass\\nprint(flush=True)\\nsys.stdin.read()"
actors = []
meter = ProcessorMeter(own=lambda: [actor.pid for actor in actors[:1]])
for _ in range(2):
    actors.append(subprocess.Popen(["ray::Trials", "-c", busy], executable=sys.executable, stdin=-1, stdout=-1))
subprocess.run([sys.executable, "-c", busy], check=True, stdin=subprocess.DEVNULL)
own = time.process_time() + 0.3
while time.process_time() < own:
    pass
for actor in actors:
    actor.stdout.readline()
print(json.dumps([meter.since(), meter.since()]))
for actor in actors:
    actor.communicate()
"""


def test_what_a_driver_its_children_and_its_actors_used_is_told_apart_and_those_of_another_sweep_are_others():
    # In a process of its own: what other tests left running here may end meanwhile.
    done = subprocess.run([sys.executable, "-c", METERED], check=True, capture_output=True)
    used, after = json.loads(done.stdout.splitlines()[-1])
    assert used["driver"] >= 0.25 and used["tests and commands"] >= 0.25 > after.get("tests and commands", 0.0)
    assert 0.4 < used["actor Trials"] < 0.9 and used["other processes"] >= 0.4


def test_rays_threads_count_for_themselves_from_the_look_on_that_first_saw_them(monkeypatch):
    mine, tick = Process(os.getpid(), 1, 1, 0, 0), os.sysconf("SC_CLK_TCK")
    looks, threads = iter([mine, mine._replace(own=50), mine._replace(own=100)]), iter([{}, {7: 30}, {7: 50, 8: 9}])
    monkeypatch.setattr(processor_use, "ray_threads", lambda pid: next(threads))
    meter = ProcessorMeter(lambda: [next(looks)])
    assert [meter.since(), meter.since()] == [{"driver": 50 / tick}, {"driver": 30 / tick, RAY_INSIDE: 20 / tick}]


def test_what_an_orphan_used_is_counted_once_wherever_it_is_waited_for():
    # Process 1 · this process · a shell of its own · a command of that shell. Numbers that no process has.
    shell, command = 2**30, 2**30 + 1
    mine = Process(os.getpid(), 1, 1, 0, 0)
    looks = iter([
        [Process(1, 0, 0, 0, 500), mine],
        [Process(1, 0, 0, 0, 500), mine, Process(shell, 5, mine.pid, 10, 0), Process(command, 6, shell, 30, 0)],
        # The shell ended and was waited for; its command, now an orphan, works on.
        [Process(1, 0, 0, 0, 500), mine._replace(reaped=10), Process(command, 6, 1, 50, 0)],
        # It used 5 more, ended, and left 55 in all with process 1.
        [Process(1, 0, 0, 0, 555), mine._replace(reaped=10)],
    ])  # fmt: skip
    meter, tick = ProcessorMeter(lambda: next(looks)), os.sysconf("SC_CLK_TCK")
    assert meter.since() == {SANDBOXES: 40 / tick}
    assert meter.since() == {SANDBOXES: 20 / tick}
    assert meter.since() == {ORPHANS: 5 / tick}
