"""Optuna's TPE as a proposer: which knob, and to which value. Its study is rebuilt at every turn from what the climb's
records say was run (by whomever it was suggested, with the values as clipped) and what that was worth against its
incumbent."""

from typing import Any

from hc_ray.climb.knobs import KNOBS
from hc_ray.climb.proposals import Moment, Proposal, propose

START_UP = 4
"""Random changes before the first modelled one."""
_TRIES = 30
"""Draws until one can run here and is not suggested by another proposer."""
_SPACE = {knob.key: knob for knob in KNOBS.values() if knob.turner == "climb" and knob.kind != "text"}


def suggest(moment: Moment) -> Proposal:
    """One change: the first draw that lives here, changes something and is not taken."""
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Each parameter is modelled by itself, so a knob's values by the trials that turned it.
    sampler = optuna.samplers.TPESampler(n_startup_trials=START_UP, seed=moment.seed_for("tpe"))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for record in moment.history:
        knob = _SPACE.get(record.proposal.knob or "")
        if knob is not None and record.worth is not None:
            ran = knob.place(record.proposal.after)
            space: dict[str, BaseDistribution] = {"knob": CategoricalDistribution(tuple(_SPACE))}
            if knob.box is not None:  # a start may lie outside of the box
                ran = min(max(ran, knob.box[0]), knob.box[1])
                space[knob.key] = FloatDistribution(*knob.box[:2])
            else:
                space[knob.key] = CategoricalDistribution(knob.options)
            params = {"knob": knob.key, knob.key: ran}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=record.worth.delta))
    entered = len(study.trials)
    for _ in range(_TRIES):
        trial = study.ask()
        knob = _SPACE[trial.suggest_categorical("knob", tuple(_SPACE))]
        asked: Any = (round(trial.suggest_float(knob.key, *knob.box[:2]), 2) if knob.box
                      else trial.suggest_categorical(knob.key, knob.options))  # fmt: skip
        drawn = propose(moment, "tpe", knob.key, asked, f"TPE's draw after {entered} evaluated changes")
        if not drawn.fault and drawn.solver.hash not in moment.taken:
            break
    return drawn
