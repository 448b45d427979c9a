"""WALL. From one solver config to the next, on dev aggregates only."""
