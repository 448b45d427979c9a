"""The distributed part of hc-ray: plain classes that ``ray_cluster.py`` turns into Ray actors, and the sweep that
drives them. Only ``ray_cluster.py`` imports ray; everything else also runs in one process without it."""
