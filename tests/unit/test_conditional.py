import socket
import sys
from types import ModuleType, SimpleNamespace

import pytest

from hc_ray.domain.errors import OutputError, StoreError
from hc_ray.stores.conditional import create_object
from hc_ray.stores.sweep_directory import SweepStore

ROOT = "s3://bucket/runs?endpoint_override=127.0.0.1:9000&scheme=http&region=eu"


class Refused(Exception):
    def __init__(self, status):
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class Bucket:
    """S3 as boto3 shows it."""

    heeds, fault = True, None

    def __init__(self):
        self.objects, self.asked = {}, None

    def client(self, kind, **asked):
        self.asked = asked
        return self

    def put_object(self, *, Bucket, Key, Body, IfNoneMatch):
        if self.fault:
            raise self.fault
        if self.heeds and IfNoneMatch == "*" and (Bucket, Key) in self.objects:
            raise Refused(412)
        self.objects[Bucket, Key] = Body


@pytest.fixture
def bucket(monkeypatch):
    bucket, boto3, config = Bucket(), ModuleType("boto3"), ModuleType("botocore.config")
    boto3.client, config.Config = bucket.client, SimpleNamespace
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.config", config)
    return bucket


def test_the_first_of_two_creates_an_object_where_pyarrow_would_look_for_it(bucket):
    assert create_object(ROOT, "bucket/runs/epochs/1", b"a") and not create_object(ROOT, "bucket/runs/epochs/1", b"b")
    assert bucket.objects == {("bucket", "runs/epochs/1"): b"a"}
    assert (bucket.asked["endpoint_url"], bucket.asked["region_name"]) == ("http://127.0.0.1:9000", "eu")
    assert create_object("s3://bucket/runs", "bucket/x", b"") and bucket.asked["endpoint_url"] is None


def test_a_store_that_does_not_heed_the_condition_or_is_not_s3_or_has_no_client_is_refused_in_one_line(
    bucket, monkeypatch
):
    bucket.heeds = False
    with pytest.raises(OutputError, match="ignores conditional writes"):
        create_object(ROOT, "bucket/x", b"")
    with pytest.raises(OutputError, match="must be a folder or an s3:// URI"):
        create_object("gs://bucket/runs", "bucket/x", b"")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(OutputError, match=r"pip install boto3"):
        create_object(ROOT, "bucket/x", b"")


def test_a_store_that_is_silent_or_not_there_is_told_in_one_line_within_seconds(monkeypatch):
    monkeypatch.setattr("hc_ray.stores.sweep_directory.ANSWER_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"s3://bucket/x?endpoint_override=127.0.0.1:{silent.getsockname()[1]}&scheme=http&region=eu"
        for uri, says in ((where, "no answer within 3 s"), ("s4://bucket/x", "Unrecognized filesystem type")):
            with pytest.raises(StoreError, match=f"cannot be opened: .*{says}") as told:
                SweepStore(uri)
            assert "\n" not in str(told.value)


@pytest.mark.parametrize("fault", [Refused(403), OSError("no route")])
def test_a_store_that_fails_is_no_store_where_another_was_first(bucket, fault):
    bucket.fault = fault
    with pytest.raises(StoreError, match="could not write x"):
        create_object(ROOT, "bucket/x", b"")
