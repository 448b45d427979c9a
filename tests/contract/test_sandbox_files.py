"""The words of ``ports.Sandbox`` and ``ports.SandboxPlace`` on files: written, read, and told apart from the image.
Tested on every backend; run as root the bwrap half is run a second time as a normal user (``test_sandbox_as_user``)."""

import asyncio
import contextlib
import io
import json
import tarfile

import pytest

from hc_ray.domain.candidate import DELETED
from hc_ray.domain.errors import SandboxError
from tests.fakes.contract_task import TASK, python, shell
from tests.fakes.tars import make_tar, member


async def test_put_writes_files_where_they_are_named_get_reads_them_and_a_pipe_is_nothing(box):
    await box.put({"in/a.txt": b"a", "/srv/deep/b": b"\0b", "run.sh": b"#!/bin/sh\necho ran\n"}, mode=0o755)
    assert await shell(box, "cat in/a.txt; wc -c < /srv/deep/b; ./run.sh; echo more >> in/a.txt") == "a2\nran\n"
    assert await box.get("in/a.txt") == b"amore\n" and await box.get("/app/in/a.txt", limit=3) == b"amo"
    assert await box.get("/srv/deep") is None and await box.get("nowhere/at/all") is None
    await shell(box, "ln -s in d; ln -s d/a.txt l; ln -s ../l in/m; ln -s nowhere n")
    assert [await box.get(path) for path in ("l", "d/m", "d", "n")] == [b"amore\n", b"amore\n", None, None]
    await box.put({"in/a.txt": b"again"})
    assert await box.get("in/a.txt") == b"again"
    await python(box, "import os; os.mkfifo('/app/pipe')")
    assert await asyncio.wait_for(box.get("/app/pipe"), 10) is None


async def test_put_tar_writes_and_removes_and_refuses_what_leaves_the_root_and_what_is_no_tar(box):
    await shell(box, "mkdir gone; touch gone/x; mkdir becomes-file; touch becomes-file/y")
    members = (member("app/new", tarfile.DIRTYPE), member("app/new/file", data=b"data"),
               member("app/becomes-file", data=b"now a file"),
               member("app/link", tarfile.SYMTYPE, "new/file"))  # fmt: skip
    await box.put_tar(make_tar({}, *members, deleted=["/app/gone", "/app/data.txt", "/app/never-was"]))
    assert (
        await shell(box, "ls -a | tr '\\n' ' '; cat link becomes-file") == ". .. becomes-file link new datanow a file"
    )
    out, removal = make_tar({"app/before": "x"}, member("../x")), make_tar({DELETED: json.dumps(["/"])})
    for refused in (out, removal, b"no tar at all" * 100):
        with pytest.raises(ValueError):
            await box.put_tar(refused)
    assert await box.get("/app/before") is None


async def test_a_folder_that_was_locked_from_inside_hides_nothing_and_is_as_locked_after_a_get_a_put_and_a_look_at_it(
    box,
):
    await shell(box, "mkdir -p d/e; echo in > d/e/f; chmod 500 d; chmod 0 d/e")
    assert await box.get("d/e/f") == b"in\n" and await box.get("d/e/none") is None
    await box.put({"d/e/g": b"put"})
    found = await box.difference()
    assert {"/app/d", "/app/d/e", "/app/d/e/f", "/app/d/e/g"} == set(found.changed)
    fork = await box.fork("locked")
    assert (await fork.difference()).tar == found.tar
    await fork.close()
    assert await shell(box, "stat -c %a d; chmod 700 d; stat -c %a d/e") == "500\n0\n"


async def test_links_that_lead_out_lead_nowhere_on_the_host(box, tmp_path):
    tmp_path.chmod(0o777)
    (tmp_path / "secret").write_text("host")
    await shell(box, f"ln -s {tmp_path} out; ln -s {tmp_path}/secret secret; ln -s ../../../../../../..{tmp_path} up")
    for path in ("secret", "out/secret", "up/secret"):
        assert await box.get(path) is None
    for path in ("out/new", "up/new"):
        with contextlib.suppress(SandboxError, ValueError):
            await box.put({path: b"x"})
    assert [path.name for path in tmp_path.iterdir()] == ["secret"] and b"host" not in (await box.difference()).tar


async def test_a_difference_names_what_is_new_changed_and_removed_and_not_what_was_changed_back(box):
    await shell(box, "cp data.txt c; echo two > data.txt; cat c > data.txt; rm c; touch data.txt")
    found = await box.difference()
    assert (found.changed, found.deleted) == ((), ())
    await shell(
        box,
        "echo two > data.txt; mkdir -p d/e; echo f > d/e/f; ln -s data.txt l; chmod 700 /opt/more/tool.sh;"
        "mkdir -p /srv/out; echo x > /srv/out/x; touch /tmp/t; mkdir -p /logs /tests; touch /logs/l /tests/t",
    )
    found = await box.difference()
    assert set(found.changed) == {
        "/app/d", "/app/d/e", "/app/d/e/f", "/app/data.txt", "/app/l", "/opt/more/tool.sh", "/srv/out", "/srv/out/x",
    }  # fmt: skip
    assert list(found.changed) == sorted(found.changed) and found.deleted == ()
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as tar:
        assert tar.getmember("opt/more/tool.sh").mode & 0o777 == 0o700 and tar.getmember("app/l").linkname == "data.txt"
        content = tar.extractfile("app/data.txt")
        assert content is not None and content.read() == b"two\n"
    await shell(box, "rm -r data.txt /opt/more")
    found = await box.difference()
    assert set(found.deleted) == {"/app/data.txt", "/opt/more"}
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as tar:
        assert tar.getnames()[0] == DELETED


async def test_of_what_lies_in_tmp_a_difference_holds_what_the_task_names(place):
    says = "Save it to `/tmp/report.txt`, and the pages as /tmp/out/a.html. Nothing else in /tmp/ counts."
    one = await place.create(TASK.model_copy(update={"instruction": says}), "named")
    try:
        await shell(one, "mkdir /tmp/out /tmp/own; echo r > /tmp/report.txt; echo a > /tmp/out/a.html; cd /tmp;"
                         "echo s | tee scratch report.txt.bak out/b.html own/c > /dev/null")  # fmt: skip
        found = await one.difference()
        assert set(found.changed) == {"/tmp/out", "/tmp/out/a.html", "/tmp/report.txt"}
        fork = await one.fork("forked")
        try:
            await shell(fork, "rm /tmp/report.txt")
            assert set((await fork.difference()).changed) == {"/tmp/out", "/tmp/out/a.html"}
        finally:
            await fork.close()
    finally:
        await one.close()


async def test_a_difference_put_into_a_fresh_sandbox_gives_the_same_difference(place, box):
    await shell(box, "mkdir d; echo f > d/f; chmod 755 d/f; ln -s /nowhere l; rm data.txt; mkfifo p; mkdir empty")
    found = await box.difference()
    fresh = await place.create(TASK, "fresh")
    try:
        await fresh.put_tar(found.tar)
        again = await fresh.difference()
        assert (again.changed, again.deleted, again.tar) == (found.changed, found.deleted, found.tar)
    finally:
        await fresh.close()


async def test_a_difference_beyond_its_limit_raises_and_holes_and_names_count(box):
    await shell(box, "head -c 3000 /dev/zero > small")
    with pytest.raises(ValueError):
        await box.difference(limit=1000)
    assert (await box.difference(limit=100_000)).changed == ("/app/small",)
    await shell(box, "for i in 1 2 3 4 5 6 7 8; do n=$(printf %0240d $i); mkdir $n; cd $n; done; touch $(seq 99)")
    with pytest.raises(ValueError):
        await box.difference(limit=100_000)
    await python(box, "open('/app/sparse', 'wb').truncate(200 << 20)")
    with pytest.raises(ValueError):
        await box.difference()
