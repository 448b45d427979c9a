from pathlib import Path

import pytest

from hc_ray.cli.config_keys import is_known, known_keys
from hc_ray.cli.options import config_from
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError


def with_sets(*texts: str, given: dict[str, object] | None = None, file: Path | None = None) -> SweepConfig:
    return config_from(str(file) if file else None, given or {}, sets=texts)


def test_set_reaches_every_field_by_its_dotted_key_and_reads_values_as_yaml(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seeds: 3\nsolver: {samples: 2, repairs: 1}\nroles: {tester: {model: theirs}}\n")
    config = with_sets(
        "solver.samples=8", "solver.temperatures=[0, 0.5]", "solver.use_skills=true", "mlflow_uri=none", "limit=null",
        "solver.hint=a=b", "roles.tester.parallel=2", "engine.threads=4", "pass_threshold=0.5", file=file,
    )  # fmt: skip
    assert (config.seeds, config.solver.samples, config.solver.repairs) == (3, 8, 1)
    assert (config.solver.temperatures, config.solver.use_skills, config.solver.hint) == ((0, 0.5), True, "a=b")
    assert (config.mlflow_uri, config.limit, config.engine.threads, config.pass_threshold) == ("none", None, 4, 0.5)
    # Unlike --model, it means the one field that it names: the role's own engine stays.
    assert (config.roles["tester"].model, config.roles["tester"].parallel) == ("theirs", 2)


def test_every_key_that_is_offered_is_taken_a_flag_for_it_beside_a_set_refused_and_the_last_set_wins():
    keys = known_keys()
    assert {"seeds", "solver.testgen.total_max", "roles.solver.model", "budget.tokens", "engine"} <= set(keys)
    assert len(keys) == len(set(keys)) and all(is_known(key) for key in keys)
    with pytest.raises(ConfigError, match="--seeds sets the same field"):
        with_sets("seeds=3", given={"--seeds": 2})
    assert with_sets("seeds=3", "seeds=4").seeds == 4


@pytest.mark.parametrize(("text", "says"), [
    ("solver.samplse=8", "--set: unknown key solver.samplse; did you mean solver.samples?"),
    ("total_max=8", "--set: unknown key total_max; did you mean solver.testgen.total_max?"),
    ("roles.sovler.model=x", "--set: unknown key roles.sovler.model; did you mean roles.solver.model?"),
    ("some.where.else.samplse=8", "did you mean solver.samples?"), ("agents=[hcc]", "did you mean hc?"),
    ("qqqq=8", "--set: unknown key qqqq; allowed: dataset, split"),
    ("seeds", "--set seeds: expected KEY=VALUE"),
    ("=3", "--set =3: expected KEY=VALUE"),
    ("seeds=two", "--set seeds: 'two' is not allowed: it should be a valid integer"),
    ("solver.temperatures=0.3", "--set solver.temperatures: 0.3 is not allowed: it should be a list"),
    ("split=devv", "--set split: 'devv' is not allowed (did you mean dev?)"),
    ("seeds=[1", "--set seeds: '[1' is not valid YAML"),
])  # fmt: skip
def test_a_set_that_is_wrong_is_one_line_that_names_the_key_and_the_nearest_known_one(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        with_sets(text)
    assert says in str(told.value) and len(str(told.value).splitlines()) == 1
