"""The section of the HTML report on selection: the replay of the stored pools, once an audit has graded every
candidate."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hc_ray.reports.html_report import bar, interval_of, table, text
from hc_ray.reports.replay_text import difference_text, estimate_text

Found = Mapping[str, Any]


def selection(found: Found) -> str:
    """The whole part; ``found`` is what ``replay`` answers."""
    level = (
        "The pools of raw and best_of_n are cut off at the tokens that hc used on the same task and seed."
        if found["equal_tokens"]
        else "The pools are not cut to equal tokens: the sweep does not hold exactly one hc config to compare with."
    )
    graded = f"In {found['graded']} of {found['trials']} trials every candidate has been graded. {level}"
    parts = [f"<p class=soft>{escape(graded)}</p>", _agents(found["agents"]), _beyond(found["beyond"])]
    if found["comparisons"]:
        parts += ["<h3>Paired at equal tokens</h3>", _pairs(found["comparisons"])]
    if any(row["pairs"] for row in found["ablations"]):
        parts += [
            "<h3>Ablations of hc on the stored pools</h3>",
            _ablations([row for row in found["ablations"] if row["pairs"]]),
            "<p class=soft>What a search would then have asked for is not in its pool: without suite or repairs it "
            "would go on where it was complete, so those two need sweeps of their own.</p>",
        ]
    return "".join(parts)


def _agents(rows: Sequence[Found]) -> str:
    columns = ("agent", "selector", "trials", "candidates", "tokens", "blind pass", "0 … 1", "random candidate",
               "oracle selector", "selection efficiency")  # fmt: skip
    return table(
        columns,
        [
            (
                f"<b>{text(row['agent'])}</b>",
                text(row["selector"]),
                f"{row['measured']} of {row['trials']}",
                f"{row['candidates']:.1f}",
                f"{row['tokens']:,.0f}",
                estimate_text(row["blind_pass"]),
                bar(row["blind_pass"]),
                *(estimate_text(row[name]) for name in ("mean", "oracle", "selection_efficiency")),
            )
            for row in rows
        ],
    )


def _beyond(beyond: Found) -> str:
    if not beyond["trials"]:
        return ""
    said = (
        f"Of {beyond['trials']} trials, hc passes {len(beyond['only_hc'])} in which no sample of the baselines passes, "
        f"and fails {len(beyond['only_samples'])} in which at least one does."
    )
    return f"<p class=claim>{escape(said)}</p>"


def _pairs(rows: Sequence[Found]) -> str:
    return table(
        ("comparison", "pairs", "difference", "p", "ratio", "only first passes", "only second passes"),
        [
            (
                f"{text(row['a'])} − {text(row['b'])}",
                str(row["pairs"]),
                difference_text(row),
                text(None if row["p"] is None else f"{row['p']:.3f}"),
                estimate_text(row["ratio"]),
                str(row["only_a"]),
                str(row["only_b"]),
            )
            for row in rows
        ],
    )


def _ablations(rows: Sequence[Found]) -> str:
    return table(
        ("ablation", "pairs", "candidates", "blind pass", "without ablation", "difference"),
        [
            (
                text(row["a"]),
                str(row["pairs"]),
                f"{row['candidates']:.1f}",
                interval_of(row["blind_pass"]),
                interval_of(row["whole"]),
                difference_text(row),
            )
            for row in rows
        ],
    )
