"""The meta-reasoner: a model that proposes one change with its reason. It sees aggregates over dev tasks and its own
history; no task's name, no output of a test. What it answers is clipped like anybody's suggestion; where it answers
nothing that can be used, the rules take its turn."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from hc_ray.agent.prompt_templates import filled
from hc_ray.climb import rules
from hc_ray.climb.evaluation import Aggregates
from hc_ray.climb.knobs import Knob, Site
from hc_ray.climb.proposals import Moment, Proposal, Record, propose
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt, found_in
from hc_ray.domain.value import Value

Ask = Callable[[Prompt], Completion | None]
"""Asks the engine of the role ``meta``; None if it does not answer."""

_ANSWER_TOKENS = 400
_TEMPERATURE = 0.7
_REASON_WORDS, _REASON = 4, 600
MEANING = {
    "self_pass": "of submissions that self-tests could judge, the share that pass all of them",
    "weak_suite": "share of trials whose self-tests give every candidate the same result",
    "duplicates": "share of a trial's candidates that repeat another",
    "malformed": "share of a trial's candidates that could not be read",
    "turns": "answers that led to the submission, its repairs included",
    "tokens": "of a trial, prompts and answers together",
}
"""What the figures of ``evaluation.FACTS`` say, for a model."""
_ENDED = "ended by "
_HISTORY = 20
"""The most changes in its prompt, the newest."""


class Suggestion(Value):
    """What the model wants, as it said it."""

    knob: str
    value: Any
    reason: str


def ask(aggregates: Aggregates, history: Sequence[Record], knobs: Sequence[Knob], site: Site, *, seed: int) -> Prompt:
    """The prompt for one change."""
    text = {"type": "string", "maxLength": _REASON}
    values = [{"type": "number"}, {"type": "boolean"}, text, {"type": "array", "items": {"type": ["number", "string"]}}]
    schema = {
        "type": "object",
        "properties": {"knob": {"enum": [knob.key for knob in knobs]}, "value": {"anyOf": values}, "reason": text},
        "required": ["knob", "value", "reason"],
        "additionalProperties": False,
    }
    said = filled(
        "meta",
        aggregates=_aggregates(aggregates),
        knobs="\n".join(_knob(knob, site) for knob in knobs),
        history="\n".join(_told(one) for one in history[-_HISTORY:]) or "none yet",
    )
    return Prompt(role="meta", purpose="climb", messages=(Message(role="user", content=said),), seed=seed,
                  max_tokens=_ANSWER_TOKENS, temperature=_TEMPERATURE, schema_=schema)  # fmt: skip


def read(answer: Completion) -> Suggestion | Malformed:
    """One change with a reason of at least one sentence."""
    text = answer.text
    if (found := found_in(text, Suggestion)) is None:
        return Malformed(reason="its answer is no JSON object with knob, value and reason", text=text[:2000])
    reason = " ".join(found.reason.split())[:_REASON]
    if len(reason.split()) < _REASON_WORDS:
        return Malformed(reason="it gave no reason of at least one sentence", text=text[:2000])
    return found.model_copy(update={"reason": reason})


def suggest(moment: Moment, complete: Ask) -> Proposal:
    """The model's change, or the rules' if its answer cannot run or repeats an earlier one."""
    own = [one for one in moment.history if one.proposal.proposer == "meta-reasoner"]
    answer = complete(ask(moment.aggregates, own, moment.knobs, moment.site, seed=moment.seed_for("meta")))
    if answer is None:
        return rules.suggest(moment, "no model answered")
    said = read(answer)
    told: dict[str, Any] = {"answer": answer.text, "tokens": answer.tokens}
    if isinstance(said, Malformed):
        return rules.suggest(moment, f"in place of the meta-reasoner: {said.reason}", **told)
    found = propose(moment, "meta-reasoner", said.knob, said.value, said.reason, **told)
    if found.fault:
        return rules.suggest(moment, f"the meta-reasoner's change cannot run: {found.fault}", **told)
    if found.solver.hash in moment.tried:
        return rules.suggest(moment, f"the meta-reasoner repeats {said.knob} = {found.after}", **told)
    return found


def _aggregates(seen: Aggregates) -> str:
    told = {"tasks": seen.tasks, "trials": seen.trials, "pass rate": seen.pass_rate or 0.0, **seen.means}
    return "\n".join(f"- {name.replace('_', ' ')}: {value:g}{_meaning(name)}" for name, value in told.items())


def _meaning(name: str) -> str:
    if name == f"{_ENDED}complete":
        return " (share of searches that ended since a candidate passed all self-tests that judge)"
    if name.startswith(_ENDED):
        return f" (share of searches that reached their limit of {name.removeprefix(_ENDED)})"
    return f" ({MEANING[name]})" if name in MEANING else ""


def _knob(knob: Knob, site: Site) -> str:
    if knob.box is not None:
        low, high, step = knob.box
        may = f"{low:g} to {high:g}, at most {step:g} from its current value"
    elif knob.options:
        may = ("its first name, " if knob.kind == "lead" else "") + "one of " + ", ".join(map(json.dumps, knob.options))
    else:
        may = "a text of at most 150 characters"
    # What holds for the style ``loop`` alone comes last in a description.
    general, _, loop = re.sub(r"(; s|S)tyle ``loop``: ", "\n", knob.meaning).partition("\n")
    meaning = loop[:1].upper() + loop[1:] if loop and site.solver.agent_style == "loop" else general
    return f"- {knob.key} (now {json.dumps(knob.at(site.solver))}; {may}): {meaning}"


def _told(record: Record) -> str:
    change, worth = record.proposal, record.worth
    lead = f", pass rate {worth.delta:+.3f} on {worth.tasks} tasks" if worth else ""
    verdict = record.decision.verdict if record.decision else "open"
    return f"- {change.knob}: {json.dumps(change.before)} to {json.dumps(change.after)}: {verdict}{lead}"
