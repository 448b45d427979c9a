"""WALL. Code that runs *inside* sandboxes, copied into the runner at /.hc. It imports only the standard library and
pytest, nothing of hc_ray, and is valid on Python 3.9 and later, since a task's own interpreter may run it."""
