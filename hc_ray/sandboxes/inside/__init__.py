"""WALL. Code that runs *inside* sandboxes, copied into the runner at /.hc: standard library (and pytest) only,
nothing of hc_ray, valid on Python 3.9 and later since a task's own interpreter may run it."""
