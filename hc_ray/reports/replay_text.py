"""The result of a replay as tables and sentences."""

from collections.abc import Mapping
from typing import IO, Any

from hc_ray.reports.html_report import NOT_MEASURED, interval_of, number
from hc_ray.reports.progress import counted
from hc_ray.reports.terminal import heading, say, table

Stream = IO[str] | None


def tell_replay(found: Mapping[str, Any], stream: Stream = None) -> None:
    """The whole replay: agents under each selector, what they cost, comparisons, ablations, how far the
    self-tests can be trusted, where choices differ."""
    trials = counted(found["trials"], "trial")
    heading(f"Replay of {trials}; in {found['graded']} every candidate has been graded", stream=stream)
    if found["graded"] < found["trials"]:
        words = "ungraded candidates count as not measured: hc-ray audit OUT grades every candidate of dev tasks"
        say(words, stream=stream, style="yellow")
    level = "the pools of raw and best_of_n are cut off at the tokens that hc used on the same task and seed"
    uncut = "the pools are not cut to equal tokens: the sweep does not hold exactly one hc config to compare with"
    say(level if found["equal_tokens"] else uncut, stream=stream, style="dim")
    _tell_agents(found, stream)
    _tell_spent(found, stream)
    _tell_comparisons(found, stream)
    _tell_beyond(found["beyond"], stream)
    _tell_ablations(found, stream)
    _tell_reliability(found, stream)
    _tell_choices(found, stream)


def _tell_agents(found: Mapping[str, Any], stream: Stream) -> None:
    heading("Agents under each selector", stream=stream)
    table(
        ("agent", "selector", "trials", "candidates", "tokens", "other choice", "blind pass", "mean", "oracle",
         "selection efficiency"),
        [
            (
                row["agent"],
                row["selector"],
                f"{row['measured']} of {row['trials']}",
                f"{row['candidates']:.1f}",
                f"{row['tokens']:,.0f}",
                "" if row["differs"] is None else row["differs"],
                *(estimate_text(row[name]) for name in ("blind_pass", "mean", "oracle", "selection_efficiency")),
            )
            for row in found["agents"]
        ],
        stream=stream,
        numbers=("candidates", "tokens", "other choice"),
    )  # fmt: skip
    for row in found["agents"]:
        if row["selector"] == "as run" and len(row["oracle_at_k"]) > 1:
            curve = ", ".join(f"{k}: {share:.2f}" for k, share in row["oracle_at_k"].items())
            say(f"{row['agent']}, oracle@k for k candidates drawn from a pool: {curve}", stream=stream, style="dim")


def _tell_spent(found: Mapping[str, Any], stream: Stream) -> None:
    heading("Cost of the whole trials", stream=stream)
    columns = ("agent", "trials", "passes", "tokens", "tokens/pass", "engine s", "engine s/pass")
    table(
        columns,
        [
            (row["agent"], row["trials"], row["passes"],
             *(number(row[name], 0) for name in ("tokens", "tokens_per_pass", "engine_seconds",
                                              "engine_seconds_per_pass")))
            for row in found["spent"]
        ],
        stream=stream,
        numbers=columns[1:],
    )  # fmt: skip


def _tell_comparisons(found: Mapping[str, Any], stream: Stream) -> None:
    heading("Paired by task and seed", stream=stream)
    table(
        ("a", "b", "pairs", "a - b", "p", "a / b", "only a", "only b", "detectable effect"),
        [
            (
                row["a"],
                row["b"],
                row["pairs"],
                difference_text(row),
                NOT_MEASURED if row["p"] is None else f"{row['p']:.3f}",
                estimate_text(row["ratio"]),
                row["only_a"],
                row["only_b"],
                "none" if row["smallest_effect"] is None else f"{row['smallest_effect']:.2f}",
            )
            for row in found["comparisons"]
        ],
        stream=stream,
        numbers=("pairs", "only a", "only b"),
    )


def _tell_beyond(beyond: Mapping[str, Any], stream: Stream) -> None:
    if not beyond["trials"]:
        say(f"\ntrials that hc passes and no sample does: {NOT_MEASURED}", stream=stream)
        return
    tasks = sorted({one["task"] for one in beyond["only_hc"]})
    named = f" (tasks: {', '.join(tasks)})" if tasks else ""
    say(
        f"\nof {beyond['trials']} trials, hc passes {len(beyond['only_hc'])} in which no sample of the baselines "
        f"passes{named}, and fails {len(beyond['only_samples'])} in which at least one does",
        stream=stream,
    )


def _tell_ablations(found: Mapping[str, Any], stream: Stream) -> None:
    if not any(row["pairs"] for row in found["ablations"]):
        return
    heading("Ablations of hc on the stored pools (what it would then have asked for is not in them)", stream=stream)
    table(
        ("ablation", "pairs", "candidates", "tokens", "blind pass", "without ablation", "difference"),
        [
            (row["a"], row["pairs"], f"{row['candidates']:.1f}", f"{row['tokens']:,.0f}",
             estimate_text(row["blind_pass"]), estimate_text(row["whole"]), difference_text(row))
            for row in found["ablations"]
        ],
        stream=stream,
        numbers=("pairs", "candidates", "tokens"),
    )  # fmt: skip


def _tell_reliability(found: Mapping[str, Any], stream: Stream) -> None:
    if not found["reliability"]:
        return
    heading("Reliability of self-tests by category, estimated from the pass matrices alone", stream=stream)
    table(
        ("agent", "category", "tests", "cells", "P(pass | correct)", "P(pass | wrong)"),
        [
            (row["agent"], row["category"], row["tests"], row["cells"], f"{row['validity']:.2f}",
             f"{row['false_pass']:.2f}")
            for row in found["reliability"]
        ],
        stream=stream,
        numbers=("tests", "cells", "P(pass | correct)", "P(pass | wrong)"),
    )  # fmt: skip


def _tell_choices(found: Mapping[str, Any], stream: Stream) -> None:
    """Trials in which some selector chooses another candidate than the one that was submitted."""
    names = (found["selector"],) if found["selector"] else tuple(found["choices"][0]["replayed"] if found["choices"]
                                                                else ())  # fmt: skip
    rows = [
        (one["trial"], one["agent"], one["candidates"], _choice(one["as_run"]),
         *(_choice(one["replayed"][name]) for name in names))
        for one in found["choices"]
        if any(one["replayed"][name]["chosen"] != one["as_run"]["chosen"] for name in names)
    ]  # fmt: skip
    if rows:
        heading("Trials in which a selector chooses another candidate", stream=stream)
        table(("trial", "agent", "candidates", "as run", *names), rows, stream=stream, numbers=("candidates",))


def _choice(choice: Mapping[str, Any]) -> str:
    bit = {True: "pass", False: "fail", None: NOT_MEASURED}[choice["passed"]]
    return f"{choice['chosen'] or 'nothing'}: {bit}"


def difference_text(row: Mapping[str, Any]) -> str:
    return NOT_MEASURED if row["delta"] is None else f"{row['delta']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"


def estimate_text(estimate: Mapping[str, Any]) -> str:
    """``0.30 [0.14, 0.52]``; the value alone where the tasks give no interval, and an open end where they leave it
    open."""
    if estimate["value"] is None or (estimate["low"] is not None and estimate["high"] is not None):
        return interval_of(estimate)
    return (
        f"{estimate['value']:.2f}" if estimate["low"] is None else f"{estimate['value']:.2f} [{estimate['low']:.2f}, …]"
    )
