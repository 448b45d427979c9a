"""``report.html``: one self-contained page (own CSS, no script, no external asset), light and dark, from a summary."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from hc_ray.domain.value import flattened
from hc_ray.reports.audit_section import MEASURES, gate_sentence, limits_sentence, quality_rows, share_text
from hc_ray.reports.comparison import HANDFUL
from hc_ray.reports.engine_use import engine_html
from hc_ray.reports.progress import counted

NOT_MEASURED = "not measured"

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --page: #ffffff; --bar: #2f6fb0;
  --band: #bcd3ea; --good: #1d7a46; --bad: #a8322a; --panel: #f5f7fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa6b5; --line: #333c48; --page: #14181e;
  --bar: #6aa9e9; --band: #274665; --good: #57c98a; --bad: #ef8078; --panel: #1b2129; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .35rem 0; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; } td.number { white-space: nowrap; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.claim { background: var(--panel); border-left: 4px solid var(--bar); padding: .6rem 1rem; margin: 1rem 0; }
svg { display: block; } details { margin-top: 1rem; } summary { cursor: pointer; }
"""


def html(summary: Mapping[str, Any], *, selection: str = "") -> str:
    """The whole page. ``selection``: its part about how candidates were chosen (``page_replay``), if there is any."""
    sweep = summary["sweep"]
    title = f"hc-ray: {text(sweep['dataset'])} x {text(sweep['model'] or 'no model')}"
    size = f"{counted(sweep['trials'], 'finished trial')} on {counted(sweep['tasks'], 'task')}"
    head = f"{size} · sweep {text(', '.join(sweep.get('directories') or [sweep['id']]))}"
    parts = [
        f"<h1>{title}</h1><p class=soft>{head}</p>",
        _claims(summary["comparisons"]),
        "<h2>Agents</h2>",
        _agents(summary["configs"]),
        "<p class=soft>Intervals are 95 % confidence intervals: Wilson for one trial per task, a bootstrap over tasks "
        "for several. Unscored trials (something failed outside the sandbox) are left out of every rate except "
        "“unscored as fails”. Weak suites: trials whose suite tells no state from another, so that it neither repairs "
        "nor selects. Ties: trials in which nothing told the submission from a candidate that behaves differently.</p>",
        "<h2>Comparisons</h2>",
        f"<p class=soft>{escape(summary['compared'])}</p>",
        _comparisons(summary["comparisons"]),
        *(f"<p class=soft>{text(told)}</p>" for told in map(aa_sentence, summary["configs"]) if told),
        "<h2>Pass@k over repeated seeds</h2>",
        _curves(summary["configs"]),
        *(() if "directories" in sweep else ("<h2>Self-test quality</h2>", _quality(summary["suite_quality"]))),
        *(("<h2>Selection</h2>", selection) if selection else ()),
        *(("<h2>Generalisation criteria</h2>", _criteria(summary["criteria"])) if summary["criteria"] else ()),
        *(("<h2>Engine</h2>", engine_html(summary["engine_use"])) if summary["engine_use"] else ()),
        f"<p class=soft>Holdout looks: {number(summary['holdout_looks'], 0)}. "
        f"Verdict bits given to trials: {summary['bits']}.</p>",
        _trials(summary["trials"]),
        _settings(sweep),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


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
    cost = "" if None in tokens else f" Tokens per trial: {tokens[0]:.0f} vs. {tokens[1]:.0f}."
    return (
        f"{comparison['a']} vs. {comparison['b']} ({comparison['split']}): {comparison['says']}. "
        f"Difference {comparison['delta']:+.2f}, 95 % interval {comparison['low']:+.2f} to {comparison['high']:+.2f}, "
        f"p = {comparison['p']:.2f} ({comparison['test']}){_corrected(comparison)}. "
        f"Of {comparison['pairs']} pairs, only {comparison['a']} passed {comparison['only_a']} and "
        f"only {comparison['b']} passed {comparison['only_b']}.{cost}"
    )


def findings(comparisons: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each comparison in words, with its result; of more than a few those that found a difference, and a count."""
    many = len(comparisons) > HANDFUL
    told = [(sentence_of(one), one["says"]) for one in comparisons if not many or one["says"] in ("improved", "worse")]
    if rest := len(comparisons) - len(told):
        told.append((f"In {rest} {'other ' if told else ''}comparisons no difference was detected.", ""))
    return told


def _corrected(comparison: Mapping[str, Any]) -> str:
    p = comparison["p_corrected"]
    return "" if p is None else f", {p:.2f} after Holm's correction"


def interval_of(estimate: Mapping[str, Any]) -> str:
    """``0.30 [0.14, 0.52]``, or that it was not measured."""
    if estimate["value"] is None:
        return NOT_MEASURED
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def text(value: Any) -> str:
    return escape(NOT_MEASURED if value is None else str(value))


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits, or that it was not measured."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td class=number>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _claims(comparisons: Sequence[Mapping[str, Any]]) -> str:
    if not comparisons:
        return "<p class=claim>Nothing to compare: fewer than two of raw, best_of_n and hc finished a trial.</p>"
    return "".join(f"<p class=claim>{escape(told)}</p>" for told, _ in findings(comparisons))


def bar(estimate: Mapping[str, Any]) -> str:
    """The interval as a band and the value as a tick, on a line from 0 to 1."""
    if estimate["value"] is None:
        return ""
    low, value, high = (round(160 * estimate[key], 1) for key in ("low", "value", "high"))
    return (
        f'<svg width="162" height="16" role="img" aria-label="{escape(interval_of(estimate))}">'
        '<line x1="1" y1="8" x2="161" y2="8" stroke="var(--line)"/>'
        f'<rect x="{low + 1}" y="4" width="{max(1.0, high - low)}" height="8" fill="var(--band)"/>'
        f'<rect x="{value}" y="1" width="2.5" height="14" fill="var(--bar)"/></svg>'
    )


def _agents(configs: Sequence[Mapping[str, Any]]) -> str:
    columns = ("agent", "split", "config", "tasks", "trials", "unscored", "blind pass", "0 … 1", "self-test pass",
               "weak suites", "ties", "unscored as fails", "retried", "tokens/trial", "tokens/pass", "engine s",
               "time limit ×")  # fmt: skip
    return table(
        columns,
        (
            (
                f"<b>{text(config['agent'])}</b>",
                text(config["split"]),
                text(config["config"] or config["config_hash"][:8]),
                str(config["tasks"]),
                str(config["trials"]),
                str(config["unscored"]),
                interval_of(config["blind_pass"]),
                bar(config["blind_pass"]),
                interval_of(config["self_pass"]),
                str(config["weak_suites"]),
                str(config["silent"]),
                interval_of(config["blind_pass_unscored_as_fail"]),
                str(config["retried"]),
                number(config["tokens_per_trial"], 0),
                number(config["tokens_per_pass"], 0) if config["passes"] else "no pass",
                number(config["engine_seconds"], 0),
                text(config["timeout_multiplier"]),
            )
            for config in configs
        ),
    )


def _comparisons(comparisons: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for item in comparisons:
        tone = {"improved": "good", "worse": "bad"}.get(item["says"], "")
        interval = NOT_MEASURED if item["delta"] is None else f"{item['low']:+.2f} to {item['high']:+.2f}"
        rows.append(
            (
                f"{text(item['a'])} − {text(item['b'])}",
                text(item["split"]),
                str(item["tasks"]),
                NOT_MEASURED if item["delta"] is None else f"{item['delta']:+.2f}",
                interval,
                number(item["p"], 3) + ("" if item["p_corrected"] is None else f" → {item['p_corrected']:.3f}"),
                f"<span class='{tone}'>{text(item['says'])}</span>",
            )
        )
    return table(("pair", "split", "tasks", "difference", "95 % interval", "p (→ corrected)", "result"), rows)


def _curves(configs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            text(config["label"]),
            text(config["split"]),
            k,
            number(config["pass_at_k"][k]),
            number(config["best_at_k"][k]),
            number(config["oracle_at_k"][k]),
            number(config["selection_efficiency"]),
        )
        for config in configs
        for k in config["pass_at_k"]
    ]
    return table(("agent", "split", "k", "pass@k", "best@k by self-tests", "oracle@k", "selection efficiency"), rows)


def _quality(audit: Mapping[str, Any] | None) -> str:
    """What an audit found, where there was one."""
    if audit is None:
        return (
            f"<p class=soft>{NOT_MEASURED}: run hc-ray audit, which checks the self-tests against the hidden tests.</p>"
        )
    rows = (
        (text(name), stage, str(figures["judging"]), *(share_text(figures[measure]) for measure in MEASURES))
        for name, stage, figures in quality_rows(audit)
    )
    figures = table(("tests", "stage", "judging", *(name.replace("_", " ") for name in MEASURES)), rows)
    said = f"<p>{escape(gate_sentence(audit))}</p><p class=soft>{escape(limits_sentence(audit))}</p>"
    terms = "".join(f"<dt>{text(name.replace('_', ' '))}</dt><dd>{text(audit['definitions'][name])}</dd>"
                    for name in MEASURES)  # fmt: skip
    return f"{figures}{said}<details><summary>Definitions</summary><dl>{terms}</dl></details>"


def _criteria(criteria: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for item in criteria:
        tone = {True: "good", False: "bad", None: ""}[item["met"]]
        needs = "none" if item["needs"] is None else f"≥ {item['needs']:.2f}"
        rows.append((text(item["name"]), needs, interval_of(item), f"<span class='{tone}'>{text(item['says'])}</span>"))
    return table(("criterion", "target", "value", "result"), rows)


def _trials(trials: Sequence[Mapping[str, Any]]) -> str:
    verdicts = {True: "<span class=good>pass</span>", False: "<span class=bad>fail</span>"}
    rows = (
        (
            text(row["trial"]),
            text(row["label"]),
            str(row["seed"]),
            verdicts.get(row["passed"], f"unscored: {text(row['cause'])}"),
            number(row["progress"]),
            number(row["turns"], 0),
            number(row["tokens"], 0),
            number(row["seconds"], 1),
        )
        for row in trials
    )
    listed = table(("trial", "agent", "seed", "verdict", "self-tests passed", "turns", "tokens", "seconds"), rows)
    return f"<details><summary>All {len(trials)} trials</summary>{listed}</details>"


def _settings(sweep: Mapping[str, Any]) -> str:
    flat = flattened(sweep["config"]) | {f"versions.{k}": v for k, v in sweep["versions"].items()}
    rows = ((text(name), text("none" if value is None else value)) for name, value in flat.items())
    return f"<details><summary>Settings</summary>{table(('setting', 'value'), rows)}</details>"
