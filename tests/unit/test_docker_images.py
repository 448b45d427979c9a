"""What is said of an image that cannot be built, and whether another try may mend it; the runner's volume."""

import contextlib
import io
import os
import queue
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hc_ray.domain.errors import DatasetError, SandboxError
from hc_ray.sandboxes.docker.images import Images
from hc_ray.sandboxes.docker.values import ImageFacts, fault_of
from tests.fakes.docker_tasks import task_with_environment

PRINTED = """Step 2/3 : WORKDIR /app
 ---> 0123
Step 3/3 : RUN pip instal x
 ---> Running in 4567
\x1b[91m/bin/sh: 1: pip: not found
\x1b[0mRemoving intermediate container 4567"""


REFUSED = """Step 3/3 : RUN pip install pytest==8.4.1
 ---> Running in 4567
Looking in indexes: https://pypi.org/simple

Could not fetch URL https://pypi.org/simple/pip/: There was a problem confirming the ssl certificate: - skipping
""" + "".join(f"ERROR: {said}\n" for said in ("no version", "No matching distribution found", "." * 900))


class Refusing:
    """A daemon that has all bases and builds nothing."""

    def __init__(self, says, said=""):
        self.fault = fault_of("building hc-ray/task:1 failed", says, said)

    def image(self, reference):
        return None if reference.startswith("hc-ray/") else ImageFacts(id=reference, workdir="")

    def build(self, *_, **__):
        raise self.fault


@pytest.mark.parametrize(("says", "said", "kind", "first", "rest"), [
    ("The command '/bin/sh -c pip instal x' returned a non-zero code: 127", PRINTED, SandboxError,
     "returned a non-zero code: 127: /bin/sh: 1: pip: not found; docker build ", ["/bin/sh: 1: pip: not found"]),
    ("The command '/bin/sh -c pip install pytest' returned a non-zero code: 1", REFUSED, SandboxError,
     "code: 1: Could not fetch URL https://pypi.org/simple/pip/: There was a problem confirming the ssl certificate: - "
     f"skipping | ERROR: no version | ERROR: No matching distribution found | ERROR: {'.' * 193}; docker build ",
     [line for line in REFUSED.splitlines()[2:] if line]),
    ("COPY failed: file not found in build context or excluded by .dockerignore: stat dta: file does not exist", "",
     DatasetError, "stat dta: file does not exist; docker build ", []),
    ("dockerfile parse error line 3: unknown flag", "", DatasetError, "line 3: unknown flag; docker build ", []),
    ("The command '/bin/sh -c jq . || (echo parse error; exit 1)' returned a non-zero code: 1", "", SandboxError,
     "non-zero code: 1; docker build ", []),
    ("it took longer than 600 s", "Step 1/1 : RUN sleep\n", SandboxError, "longer than 600 s; docker build ", []),
], ids=["a step", "a long one", "no file", "no Dockerfile", "one that speaks of it", "one without end"])  # fmt: skip
def test_a_build_that_fails_says_what_its_last_step_printed_and_only_what_may_pass_is_a_fault_of_the_machine(
    tmp_path, home, says, said, kind, first, rest
):
    task = task_with_environment(tmp_path)
    with pytest.raises((SandboxError, DatasetError)) as told:
        Images(Refusing(says, said), tmp_path).of(task)
    head, *more = str(told.value).splitlines()
    assert type(told.value) is kind and first in head and more == rest


class Building(Refusing):
    """A daemon that builds once it is told to, and knows what it builds."""

    def __init__(self):
        self.named, self.begun, self.go = set(), queue.Queue(), threading.Semaphore(0)

    def image(self, reference):
        return super().image(reference) or (ImageFacts(id="built", workdir="") if reference in self.named else None)

    def build(self, folder, text, **_):
        self.begun.put(text)
        assert self.go.acquire(timeout=60)
        return "built"

    def name_image(self, image, tag):
        self.named.add(tag)


def test_builds_that_begin_alike_wait_for_the_first_of_them_whose_layers_they_take_side_by_side(tmp_path, home):
    daemon, alike = Building(), "FROM a\nRUN apt-get install x \\\n    y\nRUN pip install "
    images = Images(daemon, tmp_path)
    texts = [f"{alike}{name}\n" for name in "bde"] + ["FROM a\nCOPY . /\n"]  # builds of different locks
    tasks = [task_with_environment(tmp_path, dockerfile=text) for text in texts]
    with ThreadPoolExecutor() as pool:
        built = [pool.submit(images.of, task) for task in tasks]
        first = {daemon.begun.get(timeout=60), daemon.begun.get(timeout=60)}
        assert texts[3] in first and len(first & set(texts[:3])) == 1 and daemon.begun.empty()
        daemon.go.release(2)
        assert {daemon.begun.get(timeout=60), daemon.begun.get(timeout=60)} == set(texts) - first
        daemon.go.release(2)
        assert {one.result(60).id for one in built} == {"built"}


class Filled:
    """A daemon of this machine whose containers only take files."""

    on_this_kernel = True
    make_volume = create = remove = lambda *_: None

    def __init__(self):
        self.done = []

    @contextlib.contextmanager
    def archive(self, container, path):
        yield None

    def extract(self, container, tar):
        with tarfile.open(fileobj=io.BytesIO(tar) if isinstance(tar, bytes) else tar) as members:
            self.done.append(members.getnames()[-1])


def test_the_runners_volume_is_marked_as_whole_once_it_is_on_the_disk(tmp_path, monkeypatch):
    (tmp_path / "python3").touch()
    daemon = Filled()
    monkeypatch.setattr(os, "sync", lambda: daemon.done.append("on the disk"))
    Images(daemon, tmp_path)._fill("runner", tmp_path, "image")
    assert daemon.done == [".hc/python3", "on the disk", ".hc/.hc-ray-complete"]
