"""WALL. From a task's instruction to one submitted candidate: it knows no library, no adapter and nothing of blind."""
