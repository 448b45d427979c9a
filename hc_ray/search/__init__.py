"""The agents ``raw``, ``best_of_n`` and ``hc``: rounds, policy, evaluation, selection, submission. May import
``selftests``, ``agent`` and the rooms below them, never a wall: ports are passed in."""
