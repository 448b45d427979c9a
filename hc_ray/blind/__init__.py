"""WALL. The only code that opens a task's ``tests/`` and ``solution/``."""
