"""Removes leftovers of dead owners from a Docker daemon, and on demand what is kept to save time."""

import contextlib
from collections.abc import Mapping

from hc_ray.machine.owner import is_leftover
from hc_ray.sandboxes.docker.availability import TASK_IMAGES
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.images import MACHINE_LABEL, OWNER_LABEL, RUNNER_LABEL
from hc_ray.sandboxes.docker.place import FORK_LABEL, NAME_LABEL


def reap(*, dry: bool = False) -> list[str]:
    """Remove the containers, networks and fork images of dead owners, and return what was removed; ``dry`` removes
    nothing. Keeps task images and the runner's volume."""
    with contextlib.closing(Daemon()) as daemon:
        # A daemon that several machines share holds containers whose owners this one cannot look up.
        own = daemon.on_this_kernel

        def dead(labels: Mapping[str, str]) -> bool:
            return is_leftover(f"{labels.get(OWNER_LABEL, '')}@{labels.get(MACHINE_LABEL, '')}", own=own)

        removed = []
        for container, labels in daemon.containers(OWNER_LABEL):
            if dead(labels):
                if not dry:
                    daemon.remove(container)
                removed.append(f"container {labels.get(NAME_LABEL, 'without a name')} {container[:12]}")
        for network, labels in daemon.networks(OWNER_LABEL):
            if dead(labels) and (dry or daemon.remove_network(network)):
                removed.append(f"network {network[:12]}")
        forks = {image for image, labels in daemon.images(FORK_LABEL) if dead(labels)}
        if not dry:
            remove_forks(daemon, forks)
        return removed + [f"image {image.removeprefix('sha256:')[:12]}" for image in sorted(forks)]


def reap_cache(*, dry: bool = False) -> list[str]:
    """Remove task images and runner volumes that no container uses, and return what was removed; the next trial creates
    them again."""
    with contextlib.closing(Daemon()) as daemon:
        images = [f"image {tag}" for tag in daemon.tags(TASK_IMAGES) if dry or daemon.remove_image(tag)]
        volumes = [f"volume {name}" for name in daemon.volumes(RUNNER_LABEL) if dry or daemon.remove_volume(name)]
        return images + volumes


def remove_forks(daemon: Daemon, images: set[str]) -> None:
    """Remove fork images repeatedly while any can be removed, since a fork of a fork holds its parent."""
    while images:
        for image in images:
            daemon.remove_image(image)
        left = images & {image for image, _ in daemon.images(FORK_LABEL)}
        if len(left) == len(images):
            return
        images = left
