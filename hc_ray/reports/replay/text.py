"""The result of a replay as tables and sentences, for the terminal and for the page."""

from collections.abc import Iterator, Mapping
from typing import Any

from hc_ray.reports.page import Section, difference_text, interval_of, number

Found = Mapping[str, Any]


def replay_sections(found: Found) -> Iterator[Section]:
    """How candidates were chosen, and how each selector would have chosen."""
    about = [f"In {found['graded']} of {found['trials']} trials every candidate has been graded."]
    if found["graded"] < found["trials"]:
        about.append("Ungraded candidates count as not measured: hc-ray audit OUT grades every candidate of dev tasks.")
    about.append(
        "The pools of raw and best_of_n are cut at the tokens that hc used on the same task and seed."
        if found["equal_tokens"]
        else "The pools are not cut to equal tokens: the sweep does not hold exactly one hc config to compare with."
    )
    yield Section("Selection", after=about)
    yield Section(
        "Agents under each selector",
        ("agent", "selector", "trials", "candidates", "tokens", "other choice", "blind pass", "random candidate",
         "oracle selector", "selection efficiency"),
        [
            (row["agent"], row["selector"], f"{row['measured']} of {row['trials']}", f"{row['candidates']:.1f}",
             f"{row['tokens']:,.0f}", "" if row["differs"] is None else row["differs"],
             *(interval_of(row[name]) for name in ("blind_pass", "mean", "oracle", "selection_efficiency")))
            for row in found["agents"]
        ],
        numbers=("candidates", "tokens", "other choice"),
        after=tuple(
            f"{row['agent']}, oracle@k for k candidates drawn from a pool: "
            + ", ".join(f"{k}: {share:.2f}" for k, share in row["oracle_at_k"].items())
            for row in found["agents"]
            if row["selector"] == "as run" and len(row["oracle_at_k"]) > 1
        ),
    )  # fmt: skip
    yield Section(
        "Paired by task and seed",
        ("a", "b", "pairs", "a - b", "p", "only a", "only b", "detectable effect"),
        [
            (row["a"], row["b"], row["pairs"], difference_text(row), number(row["p"], 3),
             row["only_a"], row["only_b"], "none" if row["smallest_effect"] is None else number(row["smallest_effect"]))
            for row in found["comparisons"]
        ],
        numbers=("pairs", "only a", "only b"),
    )  # fmt: skip
    if found["auroc"]:
        yield Section(
            "Chance that, of two candidates of a task, the correct one passes more self-tests than the wrong one",
            ("agent", "split", "tasks with both", "AUROC"),
            [(row["agent"], row["split"], row["n"], interval_of(row)) for row in found["auroc"]],
        )
