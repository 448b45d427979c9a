import re

import pytest

from hc_ray.cli.config_loader import Flag, load_config, setting
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.machine.paths import configs_dir


def written(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert len(message.splitlines()) <= 2
    return message


SHIPPED = sorted(configs_dir().glob("*.yaml"))


def test_shipped_configs_are_found_by_name_and_no_or_an_empty_file_gives_the_defaults(tmp_path):
    assert {"demo", "smoke"} <= {path.stem for path in SHIPPED}
    assert load_config() == SweepConfig() and load_config("demo") == load_config(configs_dir() / "demo.yaml")
    assert load_config(written(tmp_path, "# nothing\n")) == SweepConfig()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_parses_and_opens_with_the_command_that_runs_it(path):
    config = load_config(path)
    assert isinstance(config, SweepConfig)
    first = path.read_text().splitlines()[0]
    assert re.fullmatch(rf"# hc-ray (sweep|climb) configs/{path.name}( .*)?", first)
    assert config.split != "holdout"


def test_flags_override_the_file_and_one_of_the_engine_means_every_role(tmp_path):
    path = written(tmp_path, "dataset: somewhere\nengine:\n  model: mine\n  parallel: 2\n")
    config = load_config(path, [Flag("--model", "engine.model", "other"), Flag("-k", "seeds", 4)])
    assert (config.dataset, config.seeds) == ("somewhere", 4)
    assert (config.engine.model, config.engine.parallel) == ("other", 2)
    path = written(tmp_path, "roles:\n  tester:\n    model: weak\n")
    assert load_config(path).roles["tester"].model == "weak"
    other = Flag("--model", "engine.model", "other")
    assert load_config(path, [other]).roles == {}
    both = load_config(path, [other, setting("roles.tester.base_url=http://h/v1"), setting("roles.tester.model=t")])
    assert (both.engine.model, both.roles["tester"].model, both.roles["tester"].kind) == ("other", "t", "openai")


def test_a_missing_file_names_the_shipped_ones_and_a_folder_the_flag_for_datasets(tmp_path):
    assert "did you mean demo?" in refusal("dmeo")
    assert refusal("nowhere/at/all.yaml").startswith("nowhere/at/all.yaml: no such config file")
    assert f"-p {tmp_path}" in refusal(tmp_path)


@pytest.mark.parametrize(("text", "parts"), [
    ("seeds: [1\nagents: x\n", [":2: not valid YAML"]), ("seeds: \0\n", ["not valid YAML"]),
    ("seeds: 2026-13-45\n", ["not valid YAML: month"]), (f"seeds: {'[' * 9000}", ["not valid YAML: maximum recursion"]),
    ("grid: &a [*a]\n", ["an alias (*NAME) refers to a node that contains it"]),
    ("- a\n- b\n", [":1: a config must be a mapping"]),
    ("# c\n\nsedes: 3\n", [":3: unknown key sedes; did you mean seeds?"]),
    ("solver:\n  sample: 3\n", [":2: unknown key solver.sample; did you mean solver.samples?"]),
    ("roles:\n  solver:\n    modell: x\n", [":3: unknown key roles.solver.modell; did you mean roles.solver.model?"]),
    ("zzzqqq: 1\n", [":1: unknown key zzzqqq; allowed: dataset, "]),
    ("agents:\n  - raw\n  - besst_of_n\n", [":3: agents.1: 'besst_of_n'", "mean best_of_n?", "best_of_n, hc, oracle"]),
    ("solver:\n  samples: 999\n", [":2: solver.samples: 999 is not allowed: it should be less than or equal to 256"]),
    ("solver: 3\n", [":1: solver: 3 is not allowed: it should be a mapping"]),
    ("roles:\n  sovler: {}\n", [":2: roles: unknown name 'sovler'", "'solver'"]),
    ("seeds: 1\nseeds: 2\n", [":2: duplicate key seeds (first given in "]),
    ("seeds: 0\nlimit: 0\nk: 1\n", [":1: seeds: 0", "(and 2 more errors in this config)"]),
])  # fmt: skip
def test_a_mistake_names_file_line_field_and_what_is_allowed(tmp_path, text, parts):
    message = refusal(path := written(tmp_path, text))
    assert message.startswith(str(path)) and all(part in message for part in parts)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    assert "cannot be read" in refusal(path)
