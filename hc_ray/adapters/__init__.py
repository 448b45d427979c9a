"""WALL. Ports made real: at most one third-party library a module, and no adapter knows another."""
