"""A sweep's report: sections for the terminal and the page, and the page (``report.html``) with its plots."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hc_ray.domain.value import counted, flattened
from hc_ray.reports.arms import tuned
from hc_ray.reports.audit_section import definitions_section, quality_section
from hc_ray.reports.comparison import HANDFUL
from hc_ray.reports.engine_use import engine_lines
from hc_ray.reports.html_figures import figures, heat_map, slots, timeline
from hc_ray.reports.page import UNEXPECTED, Section, difference_text, draw, interval_of, number, p_of
from hc_ray.reports.replay.text import replay_sections
from hc_ray.reports.self_to_blind import reliance_section

Data = Mapping[str, Any]
_GRADED = {
    "isolated": "in a fresh sandbox (isolated)", "shared": "in the candidate's own sandbox (shared)",
    "separate": "in an image of the verifier's own (separate)",
}  # fmt: skip
_NETWORK = {"mention": "network where task.toml declares one", "task": "network unless task.toml declares none"}
TRIALS = 500
"""The most rows in the page's list of trials, unscored ones first. ``report.json`` holds all."""


def report_sections(summary: Data, *, out: str = "OUT") -> Sequence[Section]:
    """The report for a terminal; ``out``: the sweep directory's name in commands."""
    return [_head(summary), *_results(summary), *_other_sections(summary, out)]


def result_sections(summary: Data, *, out: str) -> Sequence[Section]:
    """What ``sweep`` prints at its end: rates, comparisons, and tasks that fail their own check."""
    return [*_results(summary), controls_section(summary, out)]


def html(summary: Data) -> str:
    """The HTML page."""
    head, (*compared, alarms) = _head(summary), comparison_sections(summary)
    nothing = "Nothing to compare: fewer than two agents or configs that use a model finished a trial."
    parts = [
        head._replace(title=""),
        *agent_sections(summary["configs"]), tuned_section(summary), draw("reading"),
        Section("Comparisons", after=() if summary["comparisons"] else (nothing,), tone="claim"),
        *compared, _pairs(summary["comparisons"]), alarms,
        draw("plots", "Figures", figures(summary)), heat_map(summary), timeline(summary["trials"]),
        slots(summary["engine_use"]),
        *_other_sections(summary),
        draw("folded", definitions_section(summary["suite_quality"])) if summary["suite_quality"] else "",
        *(replay_sections(summary["replay"]) if summary.get("replay") else ()),
        *listings(summary),
    ]  # fmt: skip
    return draw("document", f"hc-ray: {head.title}", parts)


def _results(summary: Data) -> Iterator[Section]:
    yield from agent_sections(summary["configs"])
    yield tuned_section(summary)
    yield from comparison_sections(summary)


def _head(summary: Data) -> Section:
    sweep = summary["sweep"]
    planned, trials = sweep["planned_trials"], counted(sweep["trials"], "trial")
    if planned and planned != sweep["trials"]:
        trials = f"{sweep['trials']} of {counted(planned, 'trial')}"
    told = f"{trials}, {counted(sweep['tasks'], 'task')} · sweep {', '.join(sweep.get('directories') or [sweep['id']])}"
    if sweep.get("repeated"):
        told += f"; {counted(sweep['repeated'], 'trial')} in more than one of them"
    notes = [told, *_terms(summary["trials"])]
    return Section(f"{sweep['dataset']} x {sweep['model'] or 'no model'}", after=notes)


def _terms(trials: Sequence[Data]) -> list[str]:
    """The rules under which the hidden tests ran, with counts where they differ between trials."""
    told = []
    rules: tuple[tuple[str, dict[str, str]], ...] = (("grading", _GRADED), ("sandbox", {}), ("network", _NETWORK))
    for name, words in rules:
        seen = Counter(words.get(row[name], str(row[name])) for row in trials if row[name])
        if counts := [f"{word} {times}" if len(seen) > 1 else word for word, times in seen.most_common()]:
            told.append(" / ".join(counts))
    lines = [f"tests ran {' · '.join(told)}"] if told else []
    if alone := sum(bool(row["passed"]) and row["witness"] == "none" for row in trials):
        lines.append(
            f"{counted(alone, 'passed trial')} without a second witness: the tests run no pytest that can report"
        )
    return lines


def agent_sections(configs: Sequence[Data]) -> Iterator[Section]:
    """All figures of every agent and config, and the notes needed to read them."""
    columns = ("agent", "config", "split", "blind pass", "self-test pass", "tasks", "trials", "unscored", "weak suites",
               "ties", "unscored as fails", "retried", "tokens/trial", "tokens/pass", "engine s", "wall s",
               "time limit ×")  # fmt: skip
    rows = [
        (
            one["agent"], one["config"] or one["config_hash"][:8], one["split"], interval_of(one["blind_pass"]),
            interval_of(one["self_pass"]), one["tasks"], one["trials"], one["unscored"], one["weak_suites"],
            one["silent"], interval_of(one["blind_pass_unscored_as_fail"]), one["retried"],
            number(one["tokens_per_trial"], 0), number(one["tokens_per_pass"], 0) if one["passes"] else "no pass",
            number(one["engine_seconds"], 0), number(one["seconds"], 0), one["timeout_multiplier"],
        )
        for one in configs
    ]  # fmt: skip
    named, unscored = any(one["config"] for one in configs), any(one["unscored"] for one in configs)
    splits = {one["split"] for one in configs}
    same = [column for place, column in enumerate(columns) if len({row[place] for row in rows}) == 1]
    told = {"split", "retried", "time limit ×", *(() if named else ("config",))} & {*same}  # what differs is a column
    told |= set() if unscored else {"unscored as fails"}
    kept = [place for place, column in enumerate(columns) if column not in told]
    yield Section(
        f"Agents{f' on {splits.pop()}' if len(splits) == 1 else ''} (pass rates with 95 % confidence intervals)",
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        numbers=("tasks", "trials", "unscored", "weak suites", "ties", "retried", "tokens/trial", "tokens/pass",
                 "engine s", "wall s"),
        spare=("unscored", "split", "trials", "tokens/pass", "wall s", "engine s", *(() if named else ("config",)),
               "weak suites", "ties", "unscored as fails", "retried", "time limit ×"),
    )  # fmt: skip
    rates = ", ".join(f"{one['label']} {interval_of(one['blind_pass_unscored_as_fail'])}" for one in configs)
    as_fails = f"blind pass rate if unscored trials count as fails: {rates}" if rates else "no finished trial"
    had = {
        "weak_suites": "had a weak suite: no test discriminates",
        "silent": "had no evidence for the submitted candidate over one that behaves differently",
        "empty": "submitted nothing: no answer changed anything (hc-ray show says how they ended)",
        "retried": "scored after a retry (hc-ray show lists the failed attempts)",
    }
    counts = {name: sum(one[name] for one in configs) for name in (*had, "unasked")}
    said = [f"{counted(counts[name], 'trial')} {words}" for name, words in had.items() if counts[name]]
    yield Section("", after=said if unscored else [as_fails, *said])
    warnings = [as_fails] if unscored else []
    if counts["unasked"]:
        why = "no model was asked, or no prompt fitted (budget.tokens, engine.context_tokens)"
        warnings.append(f"{counted(counts['unasked'], 'trial')} cost no tokens: {why}")
    if multipliers := {str(one["timeout_multiplier"]) for one in configs} - {"1.0", "None"}:
        warnings.append(f"time limits multiplied by {', '.join(sorted(multipliers))}")
    yield Section("", after=warnings, tone="warn")


def tuned_section(summary: Data) -> Section:
    """The caveat if the config was chosen by its verdicts on these tasks."""
    tasks = {row["task"] for row in summary["trials"]}
    return Section("", after=tuned(summary["sweep"]["tuned_on"], tasks), tone="warn")


def comparison_sections(summary: Data) -> Iterator[Section]:
    """Each comparison in words; if there are many, those that found a difference, and a count of the rest."""
    found = summary["comparisons"]
    told = [one for one in found if len(found) <= HANDFUL or one["says"] in ("improved", "worse")]
    sentences = [(summary["compared"], "soft")] if summary["compared"] else []
    sentences += [(sentence_of(one), one["says"] if one["says"] in ("improved", "worse") else "claim") for one in told]
    if rest := len(found) - len(told):
        others = counted(rest, "other comparison" if told else "comparison")
        sentences.append((f"In {others} no difference was detected.", "claim"))
    for place, (sentence, tone) in enumerate(sentences):
        yield Section("" if place else "Comparisons", after=[sentence], tone=tone)
    yield Section("", after=[
        f"A/A check of {one['label']} ({one['split']}): two halves of its own seeds differed significantly in "
        f"{one['aa_false_alarms']:.0%} of 200 comparisons (expected: at most 5 %)."
        for one in summary["configs"] if one["aa_false_alarms"] is not None
    ])  # fmt: skip


def sentence_of(comparison: Data) -> str:
    """One comparison in words."""
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


def _pairs(comparisons: Sequence[Data]) -> Section:
    rows = [
        (
            f"{one['a']} − {one['b']}", one["split"], one["tasks"], difference_text(one),
            " → ".join(p_of(p).removeprefix("= ") for p in (one["p"], one["p_corrected"]) if p is not None),
            one["says"],
        )
        for one in comparisons
    ]  # fmt: skip
    columns = ("pair", "split", "tasks", "difference [95 % interval]", "p (→ corrected)", "result")
    return Section("", columns, rows)


def _other_sections(summary: Data, out: str = "OUT") -> Iterator[Section]:
    """What supports the rates, what they cost, and what went wrong."""
    yield curves_section(summary)
    if "directories" not in summary["sweep"]:
        yield quality_section(summary["suite_quality"])
    yield criteria_section(summary)
    yield reliance_section(summary)
    if summary["engine_use"]:
        yield Section("Engine", after=engine_lines(summary["engine_use"]), tone="plain")
    looks = f"Holdout looks: {number(summary['holdout_looks'], 0)}."
    told = f"{looks} Verdict bits given to trials: {summary['bits']}."
    yield Section("Holdout looks and verdict bits", after=[told])
    yield unscored_section(summary)
    yield controls_section(summary, out)


def curves_section(summary: Data) -> Section:
    """Figures from repeated seeds."""
    columns = ("agent", "split", "k", "pass@k", "best@k by self-tests", "oracle@k", "selection efficiency")
    rows = [
        (one["label"], one["split"], k, *(number(one[name][k]) for name in ("pass_at_k", "best_at_k", "oracle_at_k")),
         number(one["selection_efficiency"]))
        for one in summary["configs"]
        if len(one["pass_at_k"]) > 1
        for k in one["pass_at_k"]
    ]  # fmt: skip
    return Section("Pass@k over repeated seeds", columns, rows, spare=("selection efficiency",))


def criteria_section(summary: Data) -> Section:
    """The criteria; met or not met only if the whole interval says so."""
    rows = [
        (one["name"], one["says"], interval_of(one), "none" if one["needs"] is None else f"≥ {one['needs']:.2f}")
        for one in summary["criteria"]
    ]
    columns = ("criterion", "result", "value", "target")
    return Section("Generalisation criteria", columns, rows)


def unscored_section(summary: Data) -> Section:
    """The causes of unscored trials."""
    rows = [
        (one["label"], one["split"], count, cause)
        for one in summary["configs"]
        for cause, count in one["unscored_causes"].items()
    ]
    return Section("Unscored trials", ("agent", "split", "trials", "cause"), rows)


def controls_section(summary: Data, out: str = "OUT") -> Section:
    """Trials of ``oracle`` and ``nop`` with the wrong verdict, each with the command that shows why."""
    rows = [
        (row["task"], row["agent"], UNEXPECTED[row["agent"], row["passed"]] + _ended(row),
         "not kept: a holdout task" if row["split"] == "holdout" else f"hc-ray unseal {out}/{row['trial']}")
        for row in summary["trials"]
        if (row["agent"], row["passed"]) in UNEXPECTED
    ]  # fmt: skip
    columns = ("task", "agent", "what is wrong", "what the tests printed")
    return Section("Tasks that fail their own check", columns, rows)


def _ended(row: Data) -> str:
    """How the reference solution ended if that may be why its tests fail, since their output does not show it."""
    return f"; solution/solve.sh: {row['solution']}" if row["solution"] not in (None, "exit status 0") else ""


def listings(summary: Data) -> list[str]:
    """The collapsed parts of a page: the trials, unscored ones first, and all settings."""
    trials, sweep = summary["trials"], summary["sweep"]
    shown = sorted(trials, key=lambda row: row["passed"] is not None)[:TRIALS]
    verdicts = {True: "pass", False: "fail"}
    rows = [
        (row["trial"], row["label"], row["seed"], verdicts.get(row["passed"], f"unscored: {row['cause']}"),
         number(row["progress"]), number(row["turns"], 0), number(row["tokens"], 0), number(row["seconds"], 1))
        for row in shown
    ]  # fmt: skip
    columns = ("trial", "agent", "seed", "verdict", "self-tests passed", "turns", "tokens", "seconds")
    told = f"All {len(trials)}" if len(shown) == len(trials) else f"{len(shown)} of {len(trials)}"
    flat = flattened(sweep["config"]) | {f"versions.{k}": v for k, v in sweep["versions"].items()}
    settings = [(name, "none" if value is None else value) for name, value in flat.items()]
    return [
        draw("folded", Section(f"{told} trials", columns, rows)),
        draw("folded", Section("Settings", ("setting", "value"), settings)),
    ]
