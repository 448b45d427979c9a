import socket
import stat

import pytest

from hc_ray.errors import PlatformError
from hc_ray_actors import cluster


def test_the_token_is_made_once_and_only_its_owner_can_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    path = cluster.token_file()
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first) >= 32
    assert cluster.token_file().read_text() == first


def test_a_named_address_that_does_not_answer_is_refused_and_not_hung_on():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(PlatformError, match="no Ray cluster answers"):
        cluster.running_cluster(f"127.0.0.1:{port}")


def test_a_stale_current_cluster_file_means_that_no_cluster_is_up(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    stale = tmp_path / "ray_current_cluster"
    stale.write_text("127.0.0.1:1")
    monkeypatch.setattr(cluster, "CURRENT_CLUSTER", stale)
    assert cluster.running_cluster() is None


def test_a_ray_client_address_is_refused_with_what_to_use_instead():
    with pytest.raises(PlatformError, match="Ray Job"):
        cluster.running_cluster("ray://head:10001")


def test_an_address_that_answers_is_taken(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert cluster.running_cluster() == address
