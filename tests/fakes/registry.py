"""An image registry of a test's own, with one small image that a daemon can pull."""

import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.tars import make_tar


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": f"application/vnd.docker.{kind}", "size": len(data), "digest": _digest(data)}


_TAR = make_tar({"small.txt": "small\n"})
_LAYER = gzip.compress(_TAR, mtime=0)
_CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                      "rootfs": {"type": "layers", "diff_ids": [_digest(_TAR)]}}).encode()  # fmt: skip
ONE = "application/vnd.docker.distribution.manifest.v2+json"
_SMALL = json.dumps({"schemaVersion": 2, "mediaType": ONE, "config": _blob("container.image.v1+json", _CONFIG),
                     "layers": [_blob("image.rootfs.diff.tar.gzip", _LAYER)]}).encode()  # fmt: skip
SMALL_ID, SMALL = _digest(_CONFIG), f"small@{_digest(_SMALL)}"
"""The small image's id, and its name below the registry's address."""
BLOBS = {f"/v2/small/blobs/{_digest(data)}": data for data in (_CONFIG, _LAYER)}


class _Registry(http.server.BaseHTTPRequestHandler):
    """Knows the image ``small:1`` and says nothing about ``silent``."""

    protocol_version = "HTTP/1.1"
    let_go: threading.Event

    def do_GET(self) -> None:
        if "/silent/" in self.path:
            self.let_go.wait(60)
        if self.path == "/v2/":
            self._answer(200, "application/json", b"{}")
        elif self.path in ("/v2/small/manifests/1", f"/v2/small/manifests/{_digest(_SMALL)}"):
            self._answer(200, ONE, _SMALL)
        elif self.path in BLOBS:
            self._answer(200, "application/octet-stream", BLOBS[self.path])
        else:
            said = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
            self._answer(404, "application/json", json.dumps(said).encode())

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def registry() -> Iterator[str]:
    """Its address. A daemon on this machine asks one on loopback without TLS."""
    let_go = threading.Event()
    handler = type("Handler", (_Registry,), {"let_go": let_go})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            let_go.set()
            server.shutdown()
