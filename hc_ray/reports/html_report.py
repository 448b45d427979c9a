"""``report.html``: one self-contained page (own CSS, no script, no external asset), light and dark, from a summary."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hc_ray.domain.value import flattened
from hc_ray.reports.audit_section import quality_html
from hc_ray.reports.comparison import HANDFUL
from hc_ray.reports.engine_use import engine_html
from hc_ray.reports.html_figures import figures, heat_map, timeline
from hc_ray.reports.page import (
    UNEXPECTED,
    Section,
    difference_text,
    document,
    folded,
    interval_of,
    number,
    p_of,
    section_html,
    text,
)
from hc_ray.reports.progress import counted
from hc_ray.reports.replay.text import selection_html
from hc_ray.reports.self_to_blind import reliance_section

TRIALS = 500
"""Rows of the page's list of trials: unscored ones first. ``report.json`` holds all."""


def html(summary: Mapping[str, Any]) -> str:
    """The whole page."""
    sweep = summary["sweep"]
    title = f"hc-ray: {text(sweep['dataset'])} x {text(sweep['model'] or 'no model')}"
    size = f"{counted(sweep['trials'], 'finished trial')} on {counted(sweep['tasks'], 'task')}"
    head = f"{size} · sweep {text(', '.join(sweep.get('directories') or [sweep['id']]))}"
    parts = [
        f"<h1>{title}</h1><p class=soft>{head}</p>",
        _claims(summary["comparisons"]),
        section_html(criteria_section(summary)),
        "<h2>Agents</h2>",
        agents_html(summary["configs"]),
        "<p class=soft>Intervals are 95 % confidence intervals: Wilson's, with as many trials for repeats as the "
        "spread over tasks is worth. Unscored trials (something failed outside the sandbox) are left out of all but "
        "“unscored as fails”. Weak suites: trials whose suite tells no state from another, so that it neither repairs "
        "nor selects. Ties: trials in which nothing told the submission from a candidate that behaves differently.</p>",
        section_html(unscored_section(summary)),
        section_html(controls_section(summary)),
        "<h2>Figures</h2>",
        figures(summary),
        heat_map(summary["trials"]),
        timeline(summary["trials"]),
        "<h2>Comparisons</h2>",
        f"<p class=soft>{escape(summary['compared'])}</p>",
        _comparisons(summary["comparisons"]),
        *(f"<p class=soft>{text(told)}</p>" for told in map(aa_sentence, summary["configs"]) if told),
        section_html(curves_section(summary)),
        section_html(reliance_section(summary)),
        *(() if "directories" in sweep else (quality_html(summary["suite_quality"]),)),
        selection_html(summary["replay"]) if summary.get("replay") else "",
        *(("<h2>Engine</h2>", engine_html(summary["engine_use"])) if summary["engine_use"] else ()),
        f"<p class=soft>Holdout looks: {number(summary['holdout_looks'], 0)}. "
        f"Verdict bits given to trials: {summary['bits']}.</p>",
        trials_html(summary["trials"]),
        settings_html(sweep),
    ]
    return document(title, parts)


def aa_sentence(config: Mapping[str, Any]) -> str | None:
    """The A/A check of an agent in words; None where its tasks ran once only."""
    share = config["aa_false_alarms"]
    if share is None:
        return None
    return (
        f"A/A check of {config['label']} ({config['split']}): two halves of its own seeds differed significantly in "
        f"{share:.0%} of 200 comparisons (expected: at most 5 %)."
    )


def sentence_of(comparison: Mapping[str, Any]) -> str:
    """One comparison in words, the same in the terminal and on the page."""
    if comparison["delta"] is None:
        return f"{comparison['a']} vs. {comparison['b']} ({comparison['split']}): {comparison['says']}."
    tokens = [comparison["tokens_a"], comparison["tokens_b"]]
    cost = "" if None in tokens else f" Tokens per trial: {tokens[0]:,.0f} vs. {tokens[1]:,.0f}."
    p = comparison["p_corrected"]
    corrected = "" if p is None else f", p {p_of(p)} after Holm's correction"
    return (
        f"{comparison['a']} vs. {comparison['b']} ({comparison['split']}): {comparison['says']}. "
        f"Difference {comparison['delta']:+.2f}, 95 % interval {comparison['low']:+.2f} to {comparison['high']:+.2f}, "
        f"p {p_of(comparison['p'])} ({comparison['test']}){corrected}. "
        f"Of {comparison['pairs']} pairs, only {comparison['a']} passed {comparison['only_a']} and "
        f"only {comparison['b']} passed {comparison['only_b']}.{cost}"
    )


def findings(comparisons: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each comparison in words, with its result; of more than a few those that found a difference, and a count."""
    many = len(comparisons) > HANDFUL
    told = [(sentence_of(one), one["says"]) for one in comparisons if not many or one["says"] in ("improved", "worse")]
    if rest := len(comparisons) - len(told):
        told.append(
            (f"In {counted(rest, 'other comparison' if told else 'comparison')} no difference was detected.", "")
        )
    return told


def _claims(comparisons: Sequence[Mapping[str, Any]]) -> str:
    if not comparisons:
        return "<p class=claim>Nothing to compare: fewer than two of raw, best_of_n and hc finished a trial.</p>"
    return "".join(f"<p class=claim>{escape(told)}</p>" for told, _ in findings(comparisons))


def agents_html(configs: Sequence[Mapping[str, Any]]) -> str:
    """All figures of every agent and config."""
    columns = ("agent", "split", "config", "blind pass", "self-test pass", "tasks", "trials", "unscored", "weak suites",
               "ties", "unscored as fails", "retried", "tokens/trial", "tokens/pass", "engine s",
               "wall s", "time limit ×")  # fmt: skip
    rows = [
        (
            one["agent"], one["split"], one["config"] or one["config_hash"][:8], interval_of(one["blind_pass"]),
            interval_of(one["self_pass"]), one["tasks"], one["trials"], one["unscored"], one["weak_suites"],
            one["silent"], interval_of(one["blind_pass_unscored_as_fail"]), one["retried"],
            number(one["tokens_per_trial"], 0), number(one["tokens_per_pass"], 0) if one["passes"] else "no pass",
            number(one["engine_seconds"], 0), number(one["seconds"], 0), one["timeout_multiplier"],
        )
        for one in configs
    ]  # fmt: skip
    words = ("config",) if any(one["config"] for one in configs) else ()
    return section_html(Section("", columns, rows, words=words))


def _comparisons(comparisons: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{one['a']} − {one['b']}", one["split"], one["tasks"], difference_text(one),
            " → ".join(p_of(p).removeprefix("= ") for p in (one["p"], one["p_corrected"]) if p is not None),
            one["says"],
        )
        for one in comparisons
    ]  # fmt: skip
    columns = ("pair", "split", "tasks", "difference [95 % interval]", "p (→ corrected)", "result")
    return section_html(Section("", columns, rows, words=("pair", "result")))


def curves_section(summary: Mapping[str, Any], least: int = 1) -> Section:
    """What repeated seeds say, of agents with at least so many sizes of a pool."""
    columns = ("agent", "split", "k", "pass@k", "best@k by self-tests", "oracle@k", "selection efficiency")
    rows = [
        (one["label"], one["split"], k, *(number(one[name][k]) for name in ("pass_at_k", "best_at_k", "oracle_at_k")),
         number(one["selection_efficiency"]))
        for one in summary["configs"]
        if len(one["pass_at_k"]) >= least
        for k in one["pass_at_k"]
    ]  # fmt: skip
    return Section("Pass@k over repeated seeds", columns, rows)


def criteria_section(summary: Mapping[str, Any]) -> Section:
    """Met or not met only where the whole interval says so."""
    rows = [
        (one["name"], one["says"], interval_of(one), "none" if one["needs"] is None else f"≥ {one['needs']:.2f}")
        for one in summary["criteria"]
    ]
    columns = ("criterion", "result", "value", "target")
    return Section("Generalisation criteria", columns, rows, words=("criterion",))


def unscored_section(summary: Mapping[str, Any]) -> Section:
    """Why trials have no verdict."""
    rows = [
        (one["label"], one["split"], count, cause)
        for one in summary["configs"]
        for cause, count in one["unscored_causes"].items()
    ]
    return Section("Unscored trials", ("agent", "split", "trials", "cause"), rows, words=("cause",))


def controls_section(summary: Mapping[str, Any], out: str = "OUT") -> Section:
    """Trials of the agents that check the harness which did not end as they must, with the command that shows why."""
    rows = [
        (row["task"], row["agent"], UNEXPECTED[row["agent"], row["passed"]],
         "not kept: a holdout task" if row["split"] == "holdout" else f"hc-ray unseal {out}/{row['trial']}")
        for row in summary["trials"]
        if (row["agent"], row["passed"]) in UNEXPECTED
    ]  # fmt: skip
    columns = ("task", "agent", "what is wrong", "what the tests printed")
    return Section("Tasks that fail their own check", columns, rows, words=columns[2:])


def trials_html(trials: Sequence[Mapping[str, Any]]) -> str:
    """The list of trials, folded; unscored ones first."""
    shown = sorted(trials, key=lambda row: row["passed"] is not None)[:TRIALS]
    verdicts = {True: "pass", False: "fail"}
    rows = [
        (row["trial"], row["label"], row["seed"], verdicts.get(row["passed"], f"unscored: {row['cause']}"),
         number(row["progress"]), number(row["turns"], 0), number(row["tokens"], 0), number(row["seconds"], 1))
        for row in shown
    ]  # fmt: skip
    columns = ("trial", "agent", "seed", "verdict", "self-tests passed", "turns", "tokens", "seconds")
    told = f"All {len(trials)}" if len(shown) == len(trials) else f"{len(shown)} of {len(trials)}"
    return folded(Section(f"{told} trials", columns, rows, words=("verdict",)))


def settings_html(sweep: Mapping[str, Any]) -> str:
    """All settings, folded."""
    flat = flattened(sweep["config"]) | {f"versions.{k}": v for k, v in sweep["versions"].items()}
    rows = [(name, "none" if value is None else value) for name, value in flat.items()]
    return folded(Section("Settings", ("setting", "value"), rows, words=("value",)))
