"""Reads instruction and environment once into a frozen ``Spec``, by explicit forms only: no rule interprets prose. May
import ``tasks``, ``statistics``, ``machine`` and ``domain``."""
