"""From one solver config to the next: knobs, proposers, race, accept or revert. Sees aggregates of dev tasks only. May
import ``search`` and what stands below it, never a wall: trials are run by an ``Evaluator`` that is handed in."""
