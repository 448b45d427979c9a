"""The climb from one solver config to the next: knobs, proposers, race, accept or revert. Sees only aggregates of dev
tasks. May import ``search`` and the rooms below it, never a wall: an ``Evaluator`` that is passed in runs the
trials."""
