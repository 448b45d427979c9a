import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.domain.candidate import DELETED
from hc_ray.domain.filetree import OUTSIDE, Member, absolute, is_outside, pack, top_most, unpack
from tests.fakes.tars import make_tar, member

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1,
                max_size=8).filter(lambda name: name not in (".", ".."))  # fmt: skip
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda p: "/" + "/".join(p))


def one(*what, **more):
    """A tar of one member."""
    return make_tar({}, member(*what, **more))


@given(st.dictionaries(PATHS, st.binary(max_size=40)), st.sets(PATHS))
def test_what_is_packed_is_unpacked(files, removed):
    members = [Member(path, "file", 0o755, data=data) for path, data in files.items() if path != f"/{DELETED}"]
    found = unpack(pack(members, removed).tar)
    assert sorted(found.members, key=lambda m: m.path) == sorted(members, key=lambda m: m.path)
    assert set(found.deleted) == set(top_most(removed))


def test_equal_changes_are_equal_bytes_in_any_order_and_no_removals_are_no_list():
    members = [
        Member("/a/b", "file", data=b"1"), Member("/a", "folder", 0o755), Member("/c", "link", 0o777, target="a"),
    ]  # fmt: skip
    first, second = pack(members, ["/x", "/y"]), pack(members[::-1], ["/y", "/x", "/y/below"])
    assert first == second and first.changed == ("/a", "/a/b", "/c") and first.deleted == ("/x", "/y")
    with tarfile.open(fileobj=io.BytesIO(first.tar)) as tar:
        assert tar.getnames() == [DELETED, "a", "a/b", "c"]
    with tarfile.open(fileobj=io.BytesIO(pack([Member("/a", "file")]).tar)) as tar:
        assert tar.getnames() == ["a"]


@pytest.mark.parametrize(("name", "kind", "says"), [
    *((name, tarfile.REGTYPE, "leaves the root") for name in
      ("../x", "a/../../x", "/etc/passwd", "/app/x", "a/../b", "..")),
    *(("x", kind, "not a file") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)),
])  # fmt: skip
def test_a_member_that_would_leave_the_root_and_one_that_is_a_device_or_a_pipe_are_refused(name, kind, says):
    with pytest.raises(ValueError, match=says):
        unpack(one(name, kind))


def test_a_hard_link_is_a_copy_and_one_that_leads_out_is_refused():
    twins = make_tar({"a": "abc"}, member("b", tarfile.LNKTYPE, "a"))
    assert {found.path: found.data for found in unpack(twins).members} == {"/a": b"abc", "/b": b"abc"}
    led = make_tar({}, member("a", tarfile.SYMTYPE, "/x"), member("b", tarfile.LNKTYPE, "a"))
    assert [(found.kind, found.target) for found in unpack(led).members] == [("link", "/x")] * 2
    with pytest.raises(ValueError):
        unpack(one("b", tarfile.LNKTYPE, target="../../etc/passwd"))
    with pytest.raises(ValueError):
        unpack(one("b", tarfile.LNKTYPE, target="not-there"))


def test_more_than_the_limit_is_refused_and_holes_count():
    with pytest.raises(ValueError, match="more than 10 bytes"):
        unpack(one("x", data=b"x" * 11), limit=10)
    assert len(unpack(one("x", data=b"x" * 10), limit=10).members) == 1
    names = [member(f"l{number}", tarfile.LNKTYPE, "x") for number in range(3)]
    with pytest.raises(ValueError, match="more than"):
        unpack(make_tar({"x": "x" * 10}, *names), limit=25)
    assert len(unpack(make_tar({"x": "x" * 10}, *names), limit=40).members) == 4
    says = {"major": "1", "minor": "0", "name": "big", "realsize": str(1 << 40)}
    headers = {f"GNU.sparse.{key}": value for key, value in says.items()}
    with pytest.raises(ValueError, match="more than"):
        unpack(one("GNUSparseFile.0/big", data=b"0\n".ljust(512, b"\0"), pax_headers=headers))


@pytest.mark.parametrize("listed", ["x", {"a": 1}, [1], ["../etc/passwd"], ["/a/../../b"], ["/"], None])
def test_a_list_of_removals_that_is_none_is_refused(listed):
    with pytest.raises(ValueError):
        unpack(one(DELETED, data=json.dumps(listed).encode()))


def test_a_list_of_removals_is_one_however_its_name_is_spelled():
    found = unpack(one(f"./{DELETED}", data=b'["/a"]'))
    assert found.deleted == ("/a",) and not found.members  # which would be packed under the list's own name


def test_a_link_leads_where_whoever_reads_it_thinks():
    ended = member("x", tarfile.SYMTYPE, pax_headers={"linkpath": "/tests\0/x"})
    with pytest.raises(ValueError, match="not a file, folder or link"):
        unpack(make_tar({}, ended))


def test_a_size_below_nothing_leads_no_reader_back():
    behind, back = one("a"), bytearray(one("b")[:512])
    back[124:136] = b"\xff" * 10 + b"\xfe\0"  # -512, as GNU writes it
    back[148:156] = b" " * 8
    back[148:156] = b"%06o\0 " % sum(back)
    try:
        change = unpack(behind[:512] + bytes(back) + bytes(1024))
    except ValueError:
        return
    assert len(change.members) <= 1  # newer Pythons take such a header for the end


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_change_or_a_value_error(data):
    try:
        unpack(data)
    except ValueError:
        return


@given(st.text(max_size=30))
def test_an_absolute_path_is_normal_or_refused(path):
    try:
        found = absolute(path, "/app")
    except ValueError:
        assert ".." in path.split("/") or "\0" in path
        return
    assert found.startswith("/") and "//" not in found and ".." not in found.split("/") and absolute(found) == found


def test_paths_are_taken_from_their_base_and_what_lies_below_another_or_is_not_the_tasks_is_left_out():
    assert (absolute("a/b", "/app"), absolute("/x", "/app"), absolute("./a//b/", "/")) == ("/app/a/b", "/x", "/a/b")
    assert top_most(["/a/b", "/a", "/a-b", "/c/d", "/a/b/c"]) == ["/a", "/a-b", "/c/d"]
    assert all(is_outside(path) and is_outside(f"{path}/x") for path in OUTSIDE) and is_outside(f"/{DELETED}")
    assert not any(is_outside(path) for path in ("/", "/app", "/testsuite", "/opt", "/opt/hcx", "/tmpfile"))
