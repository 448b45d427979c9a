"""Files of an object store that only one of several writers can create: conditional writes, which pyarrow 25 lacks."""

import importlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hc_ray.domain.errors import OutputError, StoreError

PRECONDITION_FAILED, CONFLICT = 412, 409


def create_object(root: str, full: str, data: bytes) -> bool:
    """Create the object ``<bucket>/<key>`` of the store that ``root`` is in; False where it is there. Raises
    ``OutputError`` where that cannot be had, and ``StoreError``."""
    bucket, _, key = full.partition("/")
    put = {"Bucket": bucket, "Key": key, "Body": data, "IfNoneMatch": "*"}
    client = _client(root)
    if not _put(root, client, put):
        return False
    if _put(root, client, put):
        raise OutputError(f"{root}: this store ignores conditional writes (If-None-Match), so two sweeps could write "
                          "here at the same time; choose a folder with -o")  # fmt: skip
    return True


def _client(root: str) -> Any:
    """Of S3, at the endpoint that pyarrow was told, with the credentials that both find in the same places."""
    if not root.startswith("s3://"):
        raise OutputError(f"{root}: a sweep directory must be a folder or an s3:// URI; choose one with -o")
    try:
        boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
    except ModuleNotFoundError:
        raise OutputError(f"{root}: a sweep on S3 needs boto3 for its lock: install it (pip install boto3)") from None
    asked = {name: values[-1] for name, values in parse_qs(urlsplit(root).query).items()}
    where = asked.get("endpoint_override")
    return boto3.client(
        "s3",
        region_name=asked.get("region"),
        endpoint_url=f"{asked.get('scheme', 'https')}://{where}" if where else None,
        config=config.Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2}),
    )


def _put(root: str, client: Any, put: dict[str, Any]) -> bool:
    try:
        client.put_object(**put)
    except Exception as fault:
        answered = getattr(fault, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode")
        if answered in (PRECONDITION_FAILED, CONFLICT):
            return False
        raise StoreError(f"{root}: could not write {put['Key']}: {fault}") from fault
    return True
