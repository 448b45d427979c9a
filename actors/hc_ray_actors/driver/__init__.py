"""Drives a sweep from plan to tables. The only holder of verifiers and the only writer of a sweep directory. May import
the actors, which never import it."""
