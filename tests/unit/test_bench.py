import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.engines.knee import knee_of
from hc_ray_actors.jobs.bench import bench_engine


def test_the_knee_is_the_fewest_parallel_requests_that_reach_nearly_the_best_throughput():
    assert knee_of({1: 100.0, 2: 140.0, 4: 161.0, 8: 165.0, 16: 160.0}) == 4 and knee_of({1: 100.0, 2: 50.0}) == 1


def test_what_cannot_be_measured_or_kept_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match="nothing to measure"):
        bench_engine(EngineConfig(kind="scripted", script="a:b"))
    with pytest.raises(ConfigError, match="shipped file"):
        bench_engine(EngineConfig(), save=True)
