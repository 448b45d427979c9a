"""A climb's report: sections for the terminal and the page, and the page with its plots."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hc_ray.domain.value import counted
from hc_ray.reports.climb_report import change_of
from hc_ray.reports.html_figures import Plot, Point, Series, heat_map, testgen_figure, timeline
from hc_ray.reports.page import NOT_MEASURED, Section, draw, interval_of, number
from hc_ray.reports.self_to_blind import reliance_section
from hc_ray.reports.sweep_page import agent_sections, listings, unscored_section

Data = Mapping[str, Any]
_TONES = {"meta-reasoner": "good", "rules": "other", "tpe": "third", "no change": "soft"}
_ENDS = {"generations": "its last generation", "tokens": "its token budget",
         "confirmations": "the last failed confirmation that it allows"}  # fmt: skip
_ASIDE = {"meta-reasoner": -0.15, "rules": -0.15, "tpe": 0.1, "no change": 0.2}
"""Proposer → horizontal offset of its points, so that they do not hide each other."""


def climb_html(summary: Data) -> str:
    """The HTML page."""
    head, champion, declared, proposals, *rest = climb_sections(summary)
    says = summary["climb"]["says"]
    parts = [head._replace(title=""), champion, declared, proposals,
             draw("plots", f"Figures ({says})", _plots(summary)), *rest]  # fmt: skip
    if summary["trials"]:
        first, *notes = agent_sections(summary["configs"])
        parts += [first._replace(title=f"Configs ({says})"), *notes, heat_map(summary),
                  timeline(summary["trials"]), *listings(summary)]  # fmt: skip
    return draw("document", f"hc-ray climb: {head.title}", parts)


def climb_sections(summary: Data) -> Iterator[Section]:
    """The sections of a climb's report. The first is the head, the second the outcome."""
    climb, terms = summary["climb"], summary["climb"]["terms"]
    accepted = [one for one in summary["proposals"] if one["verdict"] == "accepted" and one["knob"]]
    alarms = [one for one in summary["proposals"] if one["verdict"] == "accepted" and not one["knob"]]
    state = "not finished; to continue: hc-ray climb --resume -o OUT"
    if climb["ended_by"]:
        state = f"ended by {_ENDS[climb['ended_by']]}; to run its champion: hc-ray sweep --from OUT/champion.yaml"
    open_ = {one["generation"] for one in summary["proposals"] if one["verdict"] is None}
    done = len({one["generation"] for one in summary["proposals"]} - open_)
    came = "; ".join(f"{change_of(one)} (generation {one['generation']}, {one['proposer']})" for one in accepted)
    said = (
        f"Champion, {climb['says']}: {climb['champion']}, after {counted(len(accepted), 'accepted change')}: {came}."
        if accepted
        else f"No change {'was accepted' if climb['ended_by'] else 'has been accepted so far'}: the incumbent is the "
        f"start, {climb['says']}."
    )
    false = f" “No change” was accepted in {counted(len(alarms), 'generation')}: a false alarm." if alarms else ""
    yield Section(
        f"{climb['dataset']} x {climb['model'] or 'no model'}",
        after=[f"{done} of {counted(terms['generations'], 'generation')} decided; {state}"],
    )
    yield Section("", after=[said + false], tone="claim")
    yield Section(
        "Declared beforehand",
        after=[
            *(f"{line[:1].upper()}{line[1:]}." for line in climb["declared"]),
            f"Used {climb['tokens']:,} of {terms['tokens']:,} tokens. Verdict bits that informed decisions: "
            f"{climb['bits']:,}. "
            f"Holdout looks: {number(summary['holdout_looks'], 0)}.",
        ],
    )
    figures = ("incumbent", "changed", "difference", "one-sided p", "seeds", "tokens saved")
    yield Section(
        f"Proposals ({climb['says']})",
        ("generation", "proposer", "change", "verdict", "stage", *figures),
        [_row(one) for one in summary["proposals"]],
        numbers=figures,
        spare=("tokens saved", "stage", "seeds", "changed", "incumbent"),
    )
    yield Section(
        "Reasons of the proposers",
        ("generation", "proposer", "change", "reason"),
        [(one["generation"], one["proposer"], change_of(one), _reason(one)) for one in summary["proposals"]],
    )
    yield Section(
        f"Incumbent by generation ({climb['says']})",
        ("generation", "incumbent", "pass rate", "self-test pass", "weak suites", "tokens/trial", "accepted"),
        [
            (one["generation"], one["incumbent"], number(one["pass_rate"]), number(one["means"].get("self_pass")),
             number(one["means"].get("weak_suite")), number(one["means"].get("tokens"), 0), one["accepted"] or "none")
            for one in summary["generations"]
        ],
        spare=("self-test pass", "weak suites", "accepted"),
    )  # fmt: skip
    yield Section(
        "Proposers (shares with 95 % intervals)",
        ("proposer", "proposed", "refused", "undecided", "decided", "confirmations", "accepted",
         "accepted of decided", "accepted of confirmations"),
        [
            (name, *(one[key] for key in ("proposed", "refused", "undecided", "decided", "confirmations", "accepted")),
             interval_of(one["of_decided"]), interval_of(one["of_confirmations"]))
            for name, one in summary["proposers"].items()
        ],
        spare=("accepted of confirmations", "accepted of decided", "undecided", "refused"),
        after=["“No change” can only win by luck: its rate is the false-alarm rate to compare the others with."],
    )  # fmt: skip
    yield reliance_section(summary)._replace(title=f"Self-tests to blind ({climb['says']})")
    yield unscored_section(summary)


def _row(one: Data) -> Sequence[Any]:
    """A table row: the proposal and the look that decided it."""
    look = one["evidence"][-1] if one["evidence"] else None
    verdict, told = one["verdict"] or "open", [""] * 7
    if look and one["why"]:
        said, _, more = one["why"].partition(":")
        verdict += f": {said}{more[more.index(';') :] if ';' in more else ''}"
    if look:
        delta = NOT_MEASURED if look["delta"] is None else f"{look['delta']:+.3f}"
        told = [look["stage"], number(look["control"], 3), number(look["changed"], 3), delta, number(look["p"], 4),
                str(look["seeds"]), number(look["saved"], 0)]  # fmt: skip
        told[-1] += f" (p {look['saved_p']:.4f})" if look["saved_p"] < 1 else ""
    return (one["generation"], one["proposer"], change_of(one), verdict, *told)


def _reason(one: Data) -> str:
    """Why it was proposed, and if it was refused, why."""
    return f"{one['reason']} ({one['why']})" if one["why"] and not one["evidence"] else str(one["reason"])


def _plots(summary: Data) -> list[str]:
    generations = summary["generations"]
    ticks = [float(one["generation"]) for one in generations] or [1.0]
    ticks = ticks[:: -(-len(ticks) // 12)]
    incumbent = Series("incumbent", [
        Point(one["generation"], one["pass_rate"], says=f"{one['incumbent']}: {one['pass_rate']:.2f}")
        for one in generations if one["pass_rate"] is not None
    ])  # fmt: skip
    proposed = [
        Series(name, [_point(one) for one in summary["proposals"]
                      if one["proposer"] == name and one["evidence"] and one["evidence"][-1]["changed"] is not None],
               _TONES[name], joined=False)
        for name in summary["proposers"]
    ]  # fmt: skip
    path = draw("xy", Plot([incumbent, *proposed], "generation", "blind pass rate", ticks))
    points = f"{summary['climb']['says'].capitalize()}; points are changes at their last look, large ones accepted. "
    points += "Each generation has its own seeds, so an incumbent's rate also moves by chance."
    told = {"share of suites that can tell": ("weak_suite", "bar"), "validity (audit)": ("validity", "good"),
            "fault detection (audit)": ("fault_detection", "other")}  # fmt: skip
    series = [
        Series(name, [point for one in generations if (point := _quality(one, key))], tone)
        for name, (key, tone) in told.items()
    ]
    missing = ", ".join(one.name for one in series if not one.points)
    alone = [one.name for one in series if one.points]
    quality = draw("xy", Plot(series, "generation", alone[0] if len(alone) == 1 else "share", ticks))
    return [
        draw("figure", "Pass rate by generation", path, points),
        draw("figure", "Suite quality by climb step", quality, f"{missing}: {NOT_MEASURED}." if missing else ""),
        testgen_figure(summary),
    ]


def _point(one: Data) -> Point:
    look = one["evidence"][-1]
    says = f"{one['proposer']}, {change_of(one)}: {look['changed']:.2f}, {one['verdict']}"
    size = 7 if one["verdict"] == "accepted" else 4
    return Point(one["generation"] + _ASIDE[one["proposer"]], look["changed"], says=says, size=size)


def _quality(one: Data, key: str) -> Point | None:
    """A generation's point, with its interval if an audit gave one; None if it was not measured."""
    if key == "weak_suite":
        weak = one["means"].get(key)
        return None if weak is None else Point(one["generation"], 1 - weak, says=f"{1 - weak:.2f}")
    if not one[key] or one[key]["value"] is None:
        return None
    value, low, high = (one[key][part] for part in ("value", "low", "high"))
    return Point(one["generation"], value, low, high, interval_of(one[key]))
