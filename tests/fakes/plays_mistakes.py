"""A scripted model that makes mistakes at stated rates: it plays a terminal task's reference or one of its wrong
solutions (tests/terminal_wrong), mends or spoils it when it is told what failed, sums up, compares, and writes tests of
stated quality. It measures no model: it shows what a search does with such answers. It reads the solutions, which the
product never does. A function of the prompt, its seed and its history alone.

``engine.script = tests.fakes.plays_mistakes:good`` (or ``:poor``), with ``HC_PLAYED_DATASET`` set. Every solution
leaves its name in a file outside of the workspace, and a self-test knows by that name what it accepts."""

import json
import os
import random
import re
from pathlib import Path

from hc_ray.domain.prompt import Prompt
from hc_ray.domain.value import Value

RIGHT, WRONG = "reference", ("1", "2", "3")
COMMON = (0.5, 0.3, 0.2)
"""How often a mistake is which: the same one comes again, as those of models do."""
FIRST_RIGHT = 0.35
"""A lineage begins with the reference."""
MENDS, INSISTS = 0.5, 0.25
"""Told what failed, one that is wrong plays the reference, or submits the same again; else it makes another mistake."""
RIGHT_INSISTS = 0.7
"""Told of a failure, one that is right submits the same again; else it spoils its work."""
COMPARES_RIGHT = 0.7
"""A comparison that shows a right result names it; else any."""
TESTS = 6
MARK = "/var/tmp/played"
_WRONG_SCRIPTS = Path(__file__).parents[1] / "terminal_wrong"
_FENCE = "`" * 8


class Quality(Value):
    """What the tester's tests are worth."""

    valid: float
    """A test accepts the reference; else it accepts mistakes alone, each with even chance."""
    catches: float
    """A valid test rejects a given mistake."""
    idle: float
    """A test accepts what knows nothing of the task, and rejects each solution, right or wrong, at a rate of 0.3."""
    reread: float
    """The second reading tells a valid test from a wrong one."""


QUALITIES = {
    "good": Quality(valid=0.9, catches=0.6, idle=0.1, reread=0.8),
    "poor": Quality(valid=0.6, catches=0.25, idle=0.4, reread=0.6),
}


def good(prompt: Prompt) -> str:
    return answer(prompt, QUALITIES["good"])


def poor(prompt: Prompt) -> str:
    return answer(prompt, QUALITIES["poor"])


def answer(prompt: Prompt, quality: Quality) -> str:
    """What is said to a prompt."""
    if len(prompt.messages) < 2:
        return ""  # tests in a form that it does not write
    asked = prompt.messages[1].content
    chance = random.Random(f"{prompt.purpose} {prompt.seed} {asked[:200]}")
    if prompt.role == "tester":
        return _tests(asked, quality, chance) if prompt.purpose == "tests" else _readings(asked, quality, chance)
    played = [one for message in prompt.messages if message.role == "assistant"
              for one in re.findall(r"I play solution (\w+)\.", message.content)]  # fmt: skip
    if prompt.purpose == "summary":
        summary = {"approach": f"solution {played[-1]}", "done": "all", "verified": "it ran", "doubts": "none"}
        return json.dumps(summary)
    if prompt.purpose == "tournament":
        results = re.findall(r"^Approach: solution (\w+)$", prompt.messages[-1].content, re.M)
        knows = RIGHT in results and chance.random() < COMPARES_RIGHT
        return f"I compare.\n{results.index(RIGHT) + 1 if knows else chance.randrange(len(results)) + 1}"
    if not played:
        return _play(asked, RIGHT if chance.random() < FIRST_RIGHT else chance.choices(WRONG, COMMON)[0])
    told = "Your submission was run against tests" in prompt.messages[-1].content
    if told and (said := _after_failure(played[-1], chance)) != played[-1]:
        return _play(asked, said)
    return "```submit\n```"


def _after_failure(now: str, chance: random.Random) -> str:
    """The solution that a lineage goes on with."""
    drawn, others = chance.random(), [one for one in WRONG if one != now]
    if now == RIGHT:
        return now if drawn < RIGHT_INSISTS else chance.choice(others)
    return RIGHT if drawn < MENDS else now if drawn < MENDS + INSISTS else chance.choice(others)


def _play(asked: str, solution: str) -> str:
    """Put the workspace back as it was, and run a solution's script there."""
    folder = next(one for one in _tasks() if asked.startswith(_instruction(one)))
    found = folder / "solution" / "solve.sh" if solution == RIGHT else _WRONG_SCRIPTS / folder.name / f"{solution}.sh"
    script = found.read_text()
    again = ("if [ -d /tmp/begun ]; then find . -mindepth 1 -delete; cp -a /tmp/begun/. .; "
             'else cp -a "$PWD" /tmp/begun; fi')  # fmt: skip
    return (f"I play solution {solution}.\n{_FENCE}write /tmp/solve.sh\n{script.rstrip()}\n{_FENCE}\n"
            f"```sh timeout=600\n{again}\nbash /tmp/solve.sh\necho {solution} > {MARK}\n```")  # fmt: skip


def _tasks() -> list[Path]:
    return [
        one for one in sorted(Path(os.environ["HC_PLAYED_DATASET"]).iterdir()) if (one / "instruction.md").is_file()
    ]


def _instruction(folder: Path) -> str:
    return (folder / "instruction.md").read_text().strip("\n")


def _quote(asked: str) -> str:
    """Words of the task."""
    folder = next(one for one in _tasks() if _instruction(one) in asked)
    return max(re.findall(r"[\w ,.-]{8,60}", _instruction(folder)), key=len).strip()


def _tests(asked: str, quality: Quality, chance: random.Random) -> str:
    """A file of tests, each knowing what it accepts. Its name tells the second reading whether it is valid."""
    functions = []
    for number in range(TESTS):
        if chance.random() < quality.idle:
            rejected = [one for one in (RIGHT, *WRONG) if chance.random() < 0.3]
            valid, asserts = RIGHT not in rejected, f"not in {rejected}"
        elif chance.random() < quality.valid:
            valid, asserts = True, f"in {[RIGHT, *(one for one in WRONG if chance.random() >= quality.catches)]}"
        else:
            valid, asserts = False, f"in {[one for one in WRONG if chance.random() < 0.5]}"
        name = f"test_{'holds' if valid else 'errs'}_{number}"
        functions.append(f'def {name}():\n    """happy_path | {_quote(asked)}"""\n    assert played() {asserts}\n')
    head = f'def played():\n    with open("{MARK}") as file:\n        return file.read().strip()\n'
    return "Requirements:\n1. It works.\n\n```python\n" + "\n\n".join([head, *functions]) + "```\n"


def _readings(asked: str, quality: Quality, chance: random.Random) -> str:
    """A verdict on each test."""
    said = []
    for name in re.findall(r"def (test_\w+)\(", asked):
        knows = chance.random() < quality.reread
        verdict = ("right" if knows else "unsupported") if "holds" in name else ("wrong" if knows else "right")
        said.append(f"{name}: {verdict} | {_quote(asked)} | so it says")
    return "\n".join(said)
