"""What people read about a sweep: report, comparisons, replay, single trials, status, and the terminal. Everything is
derived from a sweep directory. May import ``search`` and the rooms below it, never a wall."""
