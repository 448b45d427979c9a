"""A sweep as a Harbor job (0.25): the folders and files that Harbor's viewer, analysis and models read. Each verdict
is one bit, on dev and holdout alike: the verifier's output stays sealed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from hc_ray.domain.ports import Store
from hc_ray.domain.trial import TrialResult
from hc_ray.domain.value import readable_json
from hc_ray.reports.report import finished, read_sweep, result_of

_OF_AGENT = ("trajectory.json", "suite.json")
_OF_GRADING = frozenset({"cause", "witness", "left_behind"})
"""The fields about grading in a result, besides the bit."""
_LOG = b"Exported by hc-ray. What the agent did is in trajectory.json; its other logs stay in the sweep's directory.\n"
"""``harbor analyze`` recognises folders by ``trial.log`` and ``job.log``."""


def job_files(store: Store, name: str) -> dict[str, bytes]:
    """Path within the job's folder → content. ``name`` names the job. Raises ``OutputError`` if ``store`` is not a
    sweep directory."""
    sweep = read_sweep(store)
    results = [result_of(store, trial) for trial in finished(store)]
    arms: defaultdict[str, set[Any]] = defaultdict(set)
    for one in results:
        arms[one.agent_info.name].add(one.agent_result.metadata.get("config_hash"))
    files: dict[str, bytes] = {}
    told: list[dict[str, Any]] = []
    for one in results:
        config = str(one.agent_result.metadata.get("config_hash"))[:8]
        several = len(arms[one.agent_info.name]) > 1
        agent = f"hc-ray-{one.agent_info.name}" + (f"-{config}" if several else "")
        told.append(trial := _trial(one, sweep, name, agent))
        folder = one.trial_name
        files[f"{folder}/config.json"] = readable_json(trial["config"])
        files[f"{folder}/result.json"] = readable_json(trial)
        files[f"{folder}/trial.log"] = _LOG
        if one.passed is not None:
            files[f"{folder}/verifier/reward.json"] = readable_json({"reward": 1.0 if one.passed else 0.0})
        for kept in _OF_AGENT:
            if store.exists(path := f"trials/{folder}/agent/{kept}"):
                files[f"{folder}/agent/{kept}"] = store.read(path)
    agents = {trial["agent_info"]["name"]: trial["config"]["agent"] for trial in told}
    job = {
        "job_name": name,
        "n_attempts": sweep["config"].get("seeds", 1),
        "agents": list(agents.values()),
        "datasets": [{"path": sweep["dataset"]}],
    }
    of_job = {"config.json": readable_json(job), "result.json": readable_json(_job(sweep, told)), "job.log": _LOG}
    return files | of_job


def _trial(one: TrialResult, sweep: Mapping[str, Any], job: str, agent: str) -> dict[str, Any]:
    """Harbor's ``TrialResult``."""
    model = one.agent_info.model_info
    dataset = PurePosixPath(sweep["dataset"])
    task = {"path": str(dataset / one.task_name.rpartition("/")[2]), "source": dataset.name}
    result = one.model_dump(mode="json", exclude={"schema_version"})
    metadata = result["agent_result"]["metadata"].items()
    result["agent_result"]["metadata"] = {key: value for key, value in metadata if key not in _OF_GRADING}
    result["agent_info"]["name"] = agent
    return result | {
        "id": str(uuid5(NAMESPACE_URL, f"{sweep.get('sweep_id')}/{one.trial_name}")),
        "trial_uri": f"hc-ray:{one.trial_name}",
        "task_id": {"path": task["path"]},
        "source": task["source"],
        "config": {
            "task": task,
            "trial_name": one.trial_name,
            "trials_dir": job,
            "timeout_multiplier": one.agent_result.metadata.get("timeout_multiplier", 1.0),
            "agent": {"name": agent, "model_name": model["name"] if model else None},
            "job_id": _job_id(sweep),
        },
    }


def _job_id(sweep: Mapping[str, Any]) -> str:
    return str(uuid5(NAMESPACE_URL, str(sweep.get("sweep_id"))))


def _job(sweep: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Harbor's ``JobResult``."""
    planned = max(sweep.get("planned_trials") or 0, len(trials))
    ended = max((one["finished_at"] for one in trials), default=sweep["started_at"])
    groups: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in trials:
        parts = (one["agent_info"]["name"], one["config"]["agent"]["model_name"], one["source"])
        groups["__".join(part for part in parts if part)].append(one)
    return {
        "id": _job_id(sweep),
        "started_at": sweep["started_at"],
        "updated_at": ended,
        "finished_at": ended if planned == len(trials) else None,
        "n_total_trials": planned,
        "stats": {
            "n_completed_trials": len(trials),
            "n_errored_trials": sum(one["exception_info"] is not None for one in trials),
            "n_pending_trials": planned - len(trials),
            "evals": {key: _eval(group) for key, group in groups.items()},
            "n_input_tokens": _sum(trials, "n_input_tokens"),
            "n_output_tokens": _sum(trials, "n_output_tokens"),
        },
    }


def _eval(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Harbor's ``AgentDatasetStats``: as there, a trial without a verdict counts as 0 in the mean."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    failed: defaultdict[str, list[str]] = defaultdict(list)
    for one in group:
        if one["verifier_result"]:
            named[str(one["verifier_result"]["rewards"]["reward"])].append(one["trial_name"])
        if one["exception_info"]:
            failed[one["exception_info"]["exception_type"]].append(one["trial_name"])
    return {
        "n_trials": sum(map(len, named.values())),
        "n_errors": sum(map(len, failed.values())),
        "metrics": [{"mean": len(named["1.0"]) / len(group)}],
        "reward_stats": {"reward": {reward: names for reward, names in named.items() if names}},
        "exception_stats": dict(failed),
    }


def _sum(trials: Sequence[Mapping[str, Any]], field: str) -> int | None:
    """The sum of a field; None if no trial has it."""
    known = [one["agent_result"][field] for one in trials if one["agent_result"][field] is not None]
    return sum(known) if known else None
