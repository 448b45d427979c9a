"""Seals datasets behind the wall: reading and checking tasks, sealed roots, splits, canaries."""
