"""WALL. Stores of results: the sweep directory, and MLflow, which can be rebuilt from it. May import ``domain``."""
