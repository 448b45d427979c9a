"""The distributed shell of hc-ray: plain classes that ``cluster.py`` turns into Ray actors, and the sweep that drives
them. Only ``cluster.py`` imports ray; everything else here also runs in one process without it."""
