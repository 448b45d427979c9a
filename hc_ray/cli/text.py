"""The tables and sentences that the verbs print. All numbers come from the report and the plan."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.value import counted
from hc_ray.domain.variants import labels
from hc_ray.reports.climb_report import change_of
from hc_ray.reports.page import NOT_MEASURED, VERDICTS, Section, number
from hc_ray.reports.progress import clock
from hc_ray.reports.terminal import NODE_COLUMNS, say, tell

_PLANNED = {"out", "refused", "estimated_tokens", "estimated_seconds", "minimal_effect", "sandbox", "sandbox_why",
            "place", "nodes", "notes", "config"}  # fmt: skip
"""The fields of a plan that ``plan_data`` copies."""
ROLES = {"solver": "model", "meta": "meta-reasoner"}
"""Role → its name in a climb's plan, where the two differ."""


def plan_data(plan: Any) -> dict[str, Any]:
    """The data of ``sweep --dry-run --json``."""
    return {
        "schema_version": 1,
        **plan.model_dump(mode="json", include=_PLANNED),
        "dataset": plan.config.dataset,
        "split": plan.config.split,
        "taken": [task.name for task in plan.taken],
        "configs": [
            {"name": one.name, "differs": label, "hash": one.hash, "changes": one.changes}
            for one, label in zip(plan.configs, _labels(plan), strict=True)
        ],
        "trials": [key.name for key in plan.trials],
        "done": plan.done,
    }


def tell_plan(plan: Any, *, whole: bool = False) -> None:
    """Print the plan of a sweep. ``whole`` lists every task."""
    config = plan.config
    agents = ", ".join(config.agents)
    asks_model = set(config.agents) - {"oracle", "nop"}
    engines = dict.fromkeys(_engine(one.config.engine) for one in plan.configs)
    rows = [
        ("tasks", f"{len(plan.taken)} to run, {len(plan.refused)} refused"),
        ("trials", _trials(plan, agents)),
        ("model", "; ".join(engines) if asks_model else "none needed"),
        *((role, _engine(engine)) for role, engine in config.roles.items() if asks_model and role != "meta"),
        ("sandbox", f"{plan.sandbox}: {plan.sandbox_why}"),
        ("runs on", plan.place),
        *(("node", _node(node)) for node in plan.nodes),
        ("cost", _cost(plan)),
        ("minimum detectable effect", _effect(plan)),
        *(("note", note) for note in plan.notes),
    ]
    tell(Section(f"Plan: {config.dataset}, split {config.split} → {plan.out}", ("", ""), rows))
    if len(plan.configs) > 1:
        told = [(one.name, label) for one, label in zip(plan.configs, _labels(plan), strict=True)]
        tell(_first(told if whole else told[:12], len(told), ("config", "differs in")))
    if whole:
        say("tasks to run: " + ", ".join(task.name for task in plan.taken), style="dim")
    refused = [(task.name, task.reason) for task in plan.refused]
    tell(_first(refused if whole else refused[:5], len(refused), ("refused", "reason")))
    say()


def tell_climb_plan(plan: Any, *, whole: bool = False) -> None:
    """Print the plan of a climb: its terms, models and machines. ``whole`` lists every task."""
    sweep = plan.sweep
    config = sweep.config
    engines = {"solver": config.engine, "meta": config.engine, **config.roles}
    rows = [
        *(("" if place else "terms", line) for place, line in enumerate(plan.says)),
        ("cost", _climb_cost(plan.cost)),
        *((ROLES.get(role, role), _engine(engine)) for role, engine in engines.items()),
        ("sandbox", f"{sweep.sandbox}: {sweep.sandbox_why}"),
        ("runs on", sweep.place),
        *(("note", note) for note in sweep.notes),
    ]
    if plan.known:
        rows.append(("already done", _climbed(plan.known)))
    tell(Section(f"Climb: {config.dataset} → {plan.out}", ("", ""), rows))
    if whole:
        say("tasks: " + ", ".join(task.name for task in sweep.taken), style="dim")


def _climb_cost(cost: Sequence[tuple[int, float]] | None) -> str:
    if cost is None:
        return "time not yet known"
    race, confirmation, whole = (f"about {clock(seconds)} ({tokens:,} tokens)" for tokens, seconds in cost)
    return f"at most {race} per generation, {confirmation} more to confirm a change, {whole} in all"


def _climbed(known: Sequence[Any]) -> str:
    """A climb's progress so far, from its records."""
    open_ = {one.proposal.generation for one in known if one.decision is None}
    done = {one.proposal.generation for one in known} - open_
    spent = max((one.decision.tokens for one in known if one.decision), default=0)
    changes = [change_of(one.proposal.model_dump(mode="json"), most=40) for one in known
               if one.accepted and one.proposal.knob]  # fmt: skip
    under_way = "; another is in progress" if open_ else ""
    return (f"{counted(len(done), 'generation')} ({spent:,} tokens), accepted: {', '.join(changes) or 'no change'}"
            f"{under_way}")  # fmt: skip


def _first(rows: Sequence[Sequence[str]], count: int, columns: Sequence[str]) -> Section:
    """A table of the first rows, and how many of ``count`` it leaves out."""
    more = [f"and {count - len(rows)} more (-v lists them)"] if count > len(rows) else []
    return Section("", columns, rows, after=more)


def _node(node: Any) -> str:
    slots = ", ".join(f"{kind.removesuffix('_slot')} {count:g}" for kind, count in node.slots.items() if count)
    faults = "; ".join(f"no {backend}: {fault}" for backend, fault in node.faults.items())
    told = f"left out: {node.left_out}" if node.left_out else f"slots: {slots}{f' ({faults})' if faults else ''}"
    return f"{node.name} ({node.address}), {told}"


def _engine(engine: EngineConfig) -> str:
    servers = ", ".join(engine.urls) or f"started by {engine.program}"
    return f"{engine.label} ({servers if engine.remote or engine.kind == 'server' else f'{engine.kind} engine'})"


def _labels(plan: Any) -> list[str]:
    return labels([one.settings for one in plan.configs], [key for one in plan.configs for key in one.changes])


def _trials(plan: Any, agents: str) -> str:
    each = f"{counted(len(plan.config.agents), 'agent')} ({agents})"
    if len(plan.configs) > 1:
        runs = {agent: len({one.stands[agent] for one in plan.configs}) for agent in plan.config.agents}
        each = f"({' + '.join(f'{count} {agent}' for agent, count in runs.items())})"
    total = f"{len(plan.trials)} = {counted(len(plan.taken), 'task')} x {each} x {counted(plan.config.seeds, 'seed')}"
    return total + (f"; {plan.done} already done" if plan.done else "")


def _cost(plan: Any) -> str:
    if plan.estimated_tokens is None:
        tokens = "tokens unknown"
    else:
        tokens = f"up to about {plan.estimated_tokens:,} tokens" if plan.estimated_tokens else "no tokens"
    if plan.estimated_seconds is None:
        return f"{tokens}; time not yet known"
    end = datetime.now().astimezone() + timedelta(seconds=plan.estimated_seconds)
    bound = " if all are used" if plan.estimated_tokens else ""
    return f"{tokens}; about {clock(plan.estimated_seconds)}{bound}, ending at {end:%H:%M}"


def _effect(plan: Any) -> str:
    if plan.arms < 2:
        return "none: a comparison needs at least two of raw, best_of_n and hc, or two configs"
    if plan.minimal_effect is None:
        are = "is" if len(plan.taken) == 1 else "are"
        return f"none: {counted(len(plan.taken), 'task')} {are} too few to detect any difference"
    more = "; more after correction for the number of comparisons" if plan.arms > 3 else ""
    return f"{plan.minimal_effect:.2f} in blind pass rate (80 % power, α = 0.05{more})"  # noqa: RUF001


def tell_trial(result: Mapping[str, Any], sweep: Mapping[str, Any]) -> None:
    """Print the result of ``run``, its sandbox, and the command that explains it. ``sweep``: its ``sweep.json``."""
    metadata = result["agent_result"]["metadata"]
    rewards = (result.get("verifier_result") or {}).get("rewards")
    verdict = VERDICTS[None if rewards is None else rewards.get("reward") == 1.0]
    cause = (result.get("exception_info") or {}).get("exception_message") or metadata.get("cause")
    rows = [
        ("verdict", verdict + (f": {cause}" if verdict != "pass" and cause not in (None, "failed") else "")),
        ("turns", NOT_MEASURED if metadata.get("turns") is None else metadata["turns"]),
        ("prompt tokens", number(result["agent_result"]["n_input_tokens"], 0)),
        ("completion tokens", number(result["agent_result"]["n_output_tokens"], 0)),
        ("sandbox", f"{sweep['sandbox']}: {sweep['sandbox_why']}"),
    ]
    tell(Section("", ("", ""), rows))
    if "out" in result:
        place = quote(f"{result['out']}/{result['trial_name']}")
        say(f"For details: hc-ray show {place}", style="dim")


def tell_status(found: Mapping[str, Any], out: str) -> None:
    planned = "" if found["planned"] is None else f" of {found['planned']}"
    owner = {
        "running": "running", "ended": "not running", None: "never started",
        "gone": f"its process died; to continue: hc-ray sweep --resume -o {quote(out)}",
    }[found["owner"]]  # fmt: skip
    say(f"{found['done']}{planned} trials done; {owner}")
    if found["owner"] == "running":
        for line in found["engines"]:
            say(line)
        tell(Section("", NODE_COLUMNS, [tuple(node.values()) for node in found["nodes"]]))
    columns = ("running task", "agent", "seed", "stage", "best self-tests", "seconds")
    rows = [
        (trial["task"], trial["agent"], trial["seed"], trial["stage"],
         "" if trial["best"] is None else f"{trial['best']:.0%}", f"{trial['seconds']:.0f}")
        for trial in found["running"]
    ]  # fmt: skip
    tell(Section("", columns, rows, spare=("best self-tests", "seed")))
    if found["last_event"]:
        say(f"last event: {found['last_event']['type']}, {clock(found['last_event']['seconds_ago'])} ago", style="dim")
    for error in found["errors"]:
        say(f"error {error['trial'] or 'sweep'}: {error['text']}", style="red")
