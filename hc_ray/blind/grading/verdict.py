"""Decides the verdict from the report of the verifier's sandbox: pure functions, Harbor's rules and the second witness.

Neither ``search`` nor ``agent`` nor ``selftests`` can import it (import contract): a trial learns one bit, through
``ports.Judge``."""

import base64
import json
import math
from collections.abc import Sequence
from typing import Any, Literal

from hc_ray.domain.task import Grading
from hc_ray.domain.value import Shown, Value

Cause = Literal[
    "passed", "failed", "tampered", "submission_refused", "no_verdict", "empty_verdict", "malformed_verdict", "timeout",
    "verifier_lost", "witness_disagrees", "witness_absent", "no_reference",
]  # fmt: skip
Witnessed = Literal["agrees", "disagrees", "none", "absent"]
"""``agrees``: the pytest sessions agree with the reward; ``none``: the tests run no pytest that can report;
``absent``: they name pytest, but none reported (or it never came to that)."""


class Verdict(Value):
    """The verdict on a submission. ``passed`` is None only for the control of a task without a reference solution."""

    schema_version: int = 1
    passed: bool | None
    cause: Cause
    reward: float | None = None
    """None if there was no readable reward."""
    rewards: dict[Shown, float] = {}
    witness: Witnessed = "absent"
    mode: Grading = "isolated"
    """The grading mode."""
    solution: str = ""
    """Shared grading of a reference: how its script ended."""
    restless: tuple[Shown, ...] = ()
    """Shared grading of a reference: what its tests change of what they stand on."""
    left_behind: tuple[Shown, ...] = ()
    """Paths of the submission that were not carried into the grading sandbox."""
    tampered: tuple[Shown, ...] = ()
    """Paths of the trusted set that the submission changed, removed or shadowed."""
    failing: tuple[str, ...] = ()
    """With ``witness_disagrees``, where that is the only objection: the tests that failed, each by its session's number
    and the digest of its node. See ``excused``."""
    detail: Shown = ""
    """For display; contains nothing of the tests' output."""
    task_digest: str = ""
    sealed_digest: str = ""
    submission: str | None = None
    """Digest of the submission; None for the untouched environment."""
    seconds: float = 0.0


class Malformed(ValueError):
    """A reward file without a valid reward."""


class Empty(Malformed):
    """An empty reward file."""


_EMPTY = "{} is empty, or no file of the user that test.sh runs as"


def read_rewards(json_file: bytes | None, text_file: bytes | None) -> dict[str, float] | None:
    """Harbor's rules: ``reward.json`` (flat, finite numbers) before ``reward.txt`` (one number). None where there is
    neither. Raises ``Malformed``: unlike Harbor for booleans in the JSON file, like Harbor for strings, NaN and the
    infinities; white space around the text file's number is fine in both."""
    if json_file is not None:
        return _json_rewards(json_file)
    if text_file is None:
        return None
    if not text_file:
        raise Empty(_EMPTY.format("reward.txt"))
    try:
        value = float(text_file.decode())
    except ValueError:
        raise Malformed("reward.txt holds no number") from None
    return {"reward": _finite(value, "reward.txt")}


def _json_rewards(content: bytes) -> dict[str, float]:
    if not content:
        raise Empty(_EMPTY.format("reward.json"))
    try:
        data = json.loads(content.decode())
    except (ValueError, RecursionError):
        raise Malformed("reward.json is no JSON") from None
    if not isinstance(data, dict) or not data:
        raise Malformed("reward.json is no object with a reward")
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in data.values()):
        raise Malformed("reward.json holds something that is no number")
    return {key: _finite(value, "reward.json") for key, value in data.items()}


def _finite(value: float, file: str) -> float:
    try:
        if math.isfinite(value):
            return float(value)
    except OverflowError:  # an integer beyond any float
        pass
    raise Malformed(f"{file} holds no finite number")


def headline(rewards: dict[str, float]) -> float:
    """The deciding reward: the key ``reward``, or the only one. Raises ``Malformed``."""
    if "reward" in rewards:
        return rewards["reward"]
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    raise Malformed('reward.json has several rewards and none of them is called "reward"')


def testimony(messages: Sequence[Any], *, mentions_pytest: bool, share: float = 1.0) -> tuple[Witnessed | None, bool]:
    """What the witness saw: (``none`` or ``absent`` when no pytest reported, else None; whether the tests passed).

    Passed means: every session that began has ended, under its own token and once, something passed, and that is
    ``share`` of all that passed, failed or broke (1: nothing failed or broke; 0: any part)."""
    known = [message for message in messages if isinstance(message, dict)]
    if not known:
        return ("absent" if mentions_pytest else "none"), False
    started = [message.get("session") for message in known if message.get("type") == "start"]
    ended = [message for message in known if message.get("type") == "end"]
    if any(message.get("type") not in ("loaded", "start", "end") for message in known):
        return None, False
    if sorted(map(str, started)) != sorted(str(message.get("session")) for message in ended):
        return None, False
    ends = (0, 5) if share >= 1.0 else (0, 1, 5)
    passed, failed = (sum(_count(one, key) for one in ended for key in keys) for keys in (("passed",), _BAD))
    borne_out = passed > 0 and passed >= share * (passed + failed)
    return None, borne_out and all(message.get("exit") in ends for message in ended)


def _failing(messages: Sequence[Any]) -> tuple[str, ...]:
    """The tests that failed, in sessions numbered as they began; none if a session named none of its failures."""
    told = [message for message in messages if isinstance(message, dict)]
    numbers = {one.get("session"): number for number, one in enumerate(one for one in told if one["type"] == "start")}
    found: list[str] = []
    for message in told:
        if message["type"] != "end" or not sum(_count(message, key) for key in _BAD):
            continue
        bad = message.get("bad")
        if not isinstance(bad, list) or not all(isinstance(one, str) for one in bad):
            return ()
        found += (f"{numbers[message.get('session')]}:{one}" for one in bad)
    return tuple(sorted(found))


def excused(verdict: Verdict, control: Verdict | None = None) -> Verdict:
    """``verdict``, turned into a pass if its only objection holds for the reference too. Either tests fail with both:
    those of a repository that were broken before the task, which ``test.sh`` does not count (SWE-bench). Or pytest
    reports in neither, since the tests start it through a program that closes what it inherits. ``control``: the
    verdict on the reference; None if ``verdict`` is that."""
    if verdict.cause == "witness_absent" and (control is None or (control.passed and control.witness == "none")):
        return verdict.model_copy(update={"passed": True, "cause": "passed", "witness": "none", "detail": ""})
    if not verdict.failing:
        return verdict
    known = verdict.failing if control is None else control.failing
    if not set(verdict.failing) <= set(known):
        return verdict.model_copy(update={"failing": ()})
    kept = verdict.failing if control is None else ()
    return verdict.model_copy(update={
        "passed": True, "cause": "passed", "witness": "agrees", "detail": "", "failing": kept,
    })  # fmt: skip


_BAD = ("failed", "errors")
_UNCOUNTABLE = 1 << 32
"""No session has so many tests."""


def _count(message: dict[str, Any], key: str) -> int:
    value = message.get(key)
    # Anything but a count is no testimony in the candidate's favour.
    return value if isinstance(value, int) and 0 <= value < _UNCOUNTABLE else (0 if key == "passed" else 1)


def decide(report: dict[str, Any] | None, *, mentions_pytest: bool, threshold: float = 1.0) -> dict[str, Any]:
    """The fields ``passed, cause, reward, rewards, witness, detail`` of a verdict, from the report of ``hc_grade``
    (None: it sent none). ``threshold``: the reward from which it passes. Whatever a candidate can bring about is a fail
    with its cause, never an exception."""
    if report is None or "error" in report:
        detail = "" if report is None else str(report["error"])
        return {"passed": False, "cause": "verifier_lost", "witness": "absent", "detail": detail}
    silent, clean = testimony(report.get("witness", []), mentions_pytest=mentions_pytest)
    fail: dict[str, Any] = {"passed": False, "witness": silent or ("disagrees" if clean else "agrees")}
    if report.get("timed_out"):
        return {**fail, "cause": "timeout", "detail": "test.sh ran past the verifier's time limit"}
    files = {name: None if raw is None else base64.b64decode(raw) for name, raw in report.get("rewards", {}).items()}
    try:
        rewards = read_rewards(files.get("reward.json"), files.get("reward.txt"))
        if rewards is None:
            return {**fail, "cause": "no_verdict", "detail": "test.sh wrote no reward file"}
        reward = headline(rewards)
    except Malformed as error:
        cause = "empty_verdict" if isinstance(error, Empty) else "malformed_verdict"
        return {**fail, "cause": cause, "detail": str(error)}
    read: dict[str, Any] = {"reward": reward, "rewards": rewards}
    if reward < threshold:
        return {**fail, **read, "cause": "failed"}
    if silent == "absent":
        return {**fail, **read, "cause": "witness_absent", "detail": "the tests run pytest, but no session reported"}
    # A part of the reward is believed as far as a part of the tests passed; all of it only when all did.
    if reward < 1.0:
        clean = testimony(report.get("witness", []), mentions_pytest=mentions_pytest, share=threshold)[1]
    if silent is None and not clean:
        detail = "a reward was written that the pytest sessions do not bear out"
        messages = report.get("witness", [])
        some = testimony(messages, mentions_pytest=mentions_pytest, share=0.0)[1]
        told = {"witness": "disagrees", "detail": detail, "failing": _failing(messages) if some else ()}
        return {**fail, **read, "cause": "witness_disagrees", **told}
    return {**read, "passed": True, "cause": "passed", "witness": silent or "agrees"}
