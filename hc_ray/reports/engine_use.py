"""How well a sweep used its engines: token throughput relative to the engine's knee, what free slots waited for, and
which processes used the CPU. From the journal's ``engine_use`` and ``processor_use`` events and ``speeds`` in
``sweep.json``."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.domain.events import OWN, RAY_INSIDE
from hc_ray.domain.journal import events_of
from hc_ray.domain.ports import Store

WAITED = {
    "sandbox": "tests and commands in sandboxes",
    "verdict": "verdicts",
    "decision": "hc-ray",
    "requests": "more requests (every trial had asked)",
    "trials": "trials",
}
"""What a free slot waited for → words for the report."""
_TOLD = (b'"type":"engine_use"', b'"type":"processor_use"', b'"type":"trial_complete"')
_BARS = 120
_COUNTS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "reused", "reused_tokens")


def engine_use(store: Store, sweep: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures; None if no model was used. Leaves out the tail of a sweep, when fewer trials remain than an engine
    has slots."""
    accounts: list[dict[str, Any]] = []
    spans: list[dict[str, Any]] = []
    ended: dict[str, int] = {}
    for number, event in enumerate(events_of(store, *_TOLD)):
        event["number"] = number  # not its time: the driver's clock may be set meanwhile
        if event["type"] == "trial_complete":
            ended[event["trial"]] = number
        else:
            (accounts if event["type"] == "engine_use" else spans).append(event)
    if not accounts:
        return None
    engines = []
    for name in sorted({account["engine"] for account in accounts}):
        own = [account for account in accounts if account["engine"] == name]
        until = _until(sorted(ended.values()), sweep.get("planned_trials"), own[-1]["slots"])
        full = [account for account in own if until is None or account["number"] <= until] or own
        engines.append(_figures(name, full, own[len(full) :], sweep.get("speeds") or {}))
    return {"engines": engines, "processors": _processors(spans), "timeline": _timeline(accounts)}


def _until(ended: Sequence[int], planned: int | None, slots: int) -> int | None:
    """The event at which the number of remaining trials first fell below ``slots``; None if it never did or was so from
    the start. ``ended``: the event at which each trial ended, sorted."""
    if planned is None or planned < slots:
        return None
    return ended[planned - slots] if len(ended) > planned - slots else None


def _figures(
    name: str, accounts: Sequence[Mapping[str, Any]], later: Sequence[Mapping[str, Any]], speeds: Mapping[str, Any]
) -> dict[str, Any]:
    """``later``: the accounts after these, for answers that were begun in these and finished later."""
    total: defaultdict[str, float] = defaultdict(float)
    waited: defaultdict[str, float] = defaultdict(float)
    for account in accounts:
        for key in ("seconds", "busy", "queued", *_COUNTS):
            total[key] += account.get(key, 0)
        total["slot_seconds"] += account["seconds"] * account["slots"]
        for what, seconds in account["waited"].items():
            waited[what] += seconds
    speed = speeds.get(name) or next((known for label, known in speeds.items() if name.startswith(f"{label} ")), None)
    begun_prompts, begun = _begun(later)
    prompts = total["prompt_tokens"] - total["cached_tokens"] + begun_prompts
    answers = total["completion_tokens"] + begun
    use, seconds = None, total["seconds"] or 1.0
    if speed and total["seconds"]:
        took = prompts / (speed["prompt_tokens_per_second"] or float("inf"))
        use = (answers / speed["completion_tokens_per_second"] + took) / seconds
    slots = total["slot_seconds"] or 1.0
    return {
        "engine": name, "slots": accounts[-1]["slots"], "seconds": total["seconds"], "whole": not later,
        "prompt_rate": prompts / seconds, "completion_rate": answers / seconds,
        **{key: int(total[key]) for key in _COUNTS}, "speed": speed, "use": use, "busy": total["busy"] / slots,
        "queued": total["queued"] / seconds,
        "waited": {what: seconds / slots for what, seconds in sorted(waited.items(), key=lambda one: -one[1])},
    }  # fmt: skip


def _begun(later: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Prompt and completion tokens processed before the ``later`` accounts began, for answers that finished in them,
    assuming an even pace."""
    prompts = answers = passed = 0.0
    for account in later:
        passed += account["seconds"]
        for before, took, prompt, written in account.get("across", ()):
            since = before + took - passed
            # An answer that took less than half a millisecond is stored as 0 s: none of it lies before them.
            share = min(1.0, max(0.0, since / took)) if took else 0.0
            prompts, answers = prompts + share * prompt, answers + share * written
    return prompts, answers


def _processors(spans: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Cores in use on the driver's machine, by kind of process."""
    seconds = sum(span["seconds"] for span in spans)
    if not seconds:
        return None
    used: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        for kind, spent in span["used"].items():
            used[kind] += spent
    cores = {kind: spent / seconds for kind, spent in sorted(used.items(), key=lambda one: -one[1])}
    return {
        "cores": spans[-1]["cores"],
        "used": cores,
        "own": sum(spent for kind, spent in cores.items() if kind.startswith(OWN)),
        "own_with_ray": sum(spent for kind, spent in cores.items() if kind.startswith((*OWN, RAY_INSIDE))),
    }


def _timeline(accounts: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The sweep in at most ``_BARS`` intervals: for each, the share of all engine slots that was busy and the share
    that waited for tests and commands."""
    bars: list[dict[str, float]] = []
    step = max(1, -(-len(accounts) // _BARS))
    for start in range(0, len(accounts), step):
        part = accounts[start : start + step]
        slots = sum(account["seconds"] * account["slots"] for account in part) or 1.0
        bars.append({
            "seconds": sum(account["seconds"] for account in part),
            "busy": sum(account["busy"] for account in part) / slots,
            "sandbox": sum(account["waited"].get("sandbox", 0.0) for account in part) / slots,
        })  # fmt: skip
    return bars


def engine_lines(found: Mapping[str, Any]) -> list[str]:
    """The figures as sentences, the same in the terminal and on the page."""
    lines = []
    for one in found["engines"]:
        use = "use not measured; to measure its speed on this machine: hc-ray engine bench"
        if one["use"] is not None:
            speed = one["speed"]
            use = (
                f"use {one['use']:.2f} of {speed['completion_tokens_per_second']:.0f} answer tokens/s at "
                f"{speed['knee']} requests, with prompts counted at {speed['prompt_tokens_per_second']:.0f}/s"
            )
        span = f"{one['seconds']:.0f} s"
        if not one["whole"]:
            span = f"the {span} until fewer trials remained than slots"
        cached = f", {one['cached_tokens']:,} prompt tokens cached" if one["cached_tokens"] else ""
        waits = [f"{share:.0%} {WAITED.get(what, what)}" for what, share in one["waited"].items() if share > 0.005]
        told = [
            f"{one['engine']}: {use}. In {span}: {one['requests']:,} answers, and with those under way "
            f"{one['completion_rate']:.0f} answer tokens/s and {one['prompt_rate']:.0f} prompt tokens/s{cached}.",
            f"Its {one['slots']} slots were busy {one['busy']:.0%} of the time"
            f"{'; free ones waited for: ' if waits else ''}{', '.join(waits)}.",
        ]
        if one["queued"] >= 0.05:
            told.append(f"{one['queued']:.1f} requests queued on average.")
        if one["reused"]:
            told.append(f"{one['reused']:,} further requests of {one['reused_tokens']:,} tokens repeated earlier ones "
                        "of the sweep and reused their answers.")  # fmt: skip
        lines.append(" ".join(told))
    if processors := found["processors"]:
        kinds = ", ".join(f"{kind} {cores:.2f}" for kind, cores in processors["used"].items() if cores >= 0.005)
        lines.append(
            f"Cores in use while the trials ran, of {processors['cores']} on the driver's machine: {kinds}; hc-ray "
            f"itself {processors['own']:.2f}, {processors['own_with_ray']:.2f} with Ray's threads in its processes."
        )
    return lines
