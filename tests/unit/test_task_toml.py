import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.tasks.task_toml import parse_task_toml

EITHER = """{}
[metadata]
author_name = "x"
tags = ["a", "b"]
[environment]
docker_image = "org/task:1"
cpus = 1
{}
{}
[agent]
timeout_sec = 900.0
[verifier]
timeout_sec = 120
"""
OLD = EITHER.format('version = "1.0"', 'memory = "2G"\nstorage = "512M"', "allow_internet = false")
NEW = EITHER.format('schema_version = "1.1"', "memory_mb = 2048\nstorage_mb = 512", 'network_mode = "no-network"')
NEW += '[task]\nname = "org/task"\n'


def test_the_old_and_the_new_spelling_say_the_same_and_silence_about_the_network_is_no_mode():
    old, new = parse_task_toml(OLD), parse_task_toml(NEW)
    assert old.faults == new.faults == () and old.environment == new.environment
    assert (old.agent, old.verifier) == (new.agent, new.verifier) and old.environment.memory_mb == 2048
    assert old.environment.storage_mb == 512 and old.environment.network_mode == "no-network"
    assert old.tags == ("a", "b") and new.task.name == "org/task"
    assert parse_task_toml("").environment.network_mode is None
    assert parse_task_toml("[environment]\nallow_internet = true").environment.network_mode == "public"
    odd = parse_task_toml("[environment]\nmemory = '1.5g'\nstorage = '2048K'").environment
    assert (odd.memory_mb, odd.storage_mb) == (1536, 2)


def test_every_documented_section_is_read() -> None:
    parsed = parse_task_toml(
        """schema_version = "1.4"
artifacts = ["/app/out"]
[environment]
gpu_types = ["H100"]
skills_dir = "/skills"
network_mode = "allowlist"
allowed_hosts = ["example.org"]
healthcheck = {command = "true"}
mcp_servers = [{name = "m", url = "http://x"}]
[verifier]
user = 1000
[solution]
env = {C = "2"}
"""
    )
    assert parsed.faults == parsed.unknown == () and parsed.environment.healthcheck == {"command": "true"}
    assert parsed.environment.allowed_hosts == ("example.org",) and parsed.verifier.user == 1000
    assert parsed.environment.gpu_types == ("H100",) and parsed.environment.skills_dir == "/skills"
    assert parsed.solution.env == {"C": "2"}


def test_a_syntax_error_names_its_line_and_of_several_faults_all_are_told_beside_sound_sections():
    (fault,) = parse_task_toml('version = "1.0"\n[environment\ncpus = 1\n').faults
    assert fault.field == "task.toml" and "line 2" in fault.says
    (fault,) = parse_task_toml("metadata.deep = " + "[" * 9000).faults
    assert fault.field == "task.toml" and "recursion" in fault.says
    parsed = parse_task_toml("[environment]\ncpus = 'x'\ngpus = 'y'\n[agent]\ntimeout_sec = 5")
    assert {fault.field for fault in parsed.faults} == {"environment.cpus", "environment.gpus"}
    assert parsed.agent.timeout_sec == 5


@pytest.mark.parametrize(("text", "field"), [
    ("[environment]\ncpus = true", "environment.cpus"),
    ("[environment]\ncpus = 'two'", "environment.cpus"),
    ("[environment]\ncpus = nan", "environment.cpus"),
    ("[environment]\nmemory = '2 apples'", "environment"),
    ("[environment]\nmemory = '1G'\nmemory_mb = 2048", "environment"),
    ("[environment]\nallow_internet = false\nnetwork_mode = 'public'", "environment"),
    ("[environment]\nallowed_hosts = ['x']", "environment"),
    ("[environment]\nnetwork_mode = 'sometimes'", "environment.network_mode"),
    ("[environment]\nworkdir = 'app'", "environment.workdir"),
    ("[environment]\nenv = {A = 1}", "environment.env.A"),
    ("[agent]\ntimeout_sec = -1", "agent.timeout_sec"),
    ("[verifier]\ntimeout_sec = 'long'", "verifier.timeout_sec"),
    ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\ncpus = 1", "verifier"),
    ("[task]\nname = 'no-organisation'", "task.name"),
    ("environment = 3", "environment"), ("metadata = 3", "metadata"), ("artifacts = 3", "artifacts"),
    ("artifacts = [{source = ''}]", "artifacts"),
    ("version = 1", "schema_version"),
    ("[[steps]]\nname = 'one'", "steps"),
])  # fmt: skip
def test_a_fault_names_its_field_and_a_remedy(text: str, field: str) -> None:
    (fault,) = parse_task_toml(text).faults
    assert fault.field == field and fault.says and fault.remedy


@pytest.mark.parametrize("line, remedy", [
    ("[environment]\ncpus = 0", "use a number,"), ('[environment]\nmemory_mb = "x"', "use a whole number,"),
    ('[verifier]\nenvironment_mode = "own"', 'use "shared" or "separate",'), ("[agent]\nuser = []", "use a string"),
])  # fmt: skip
def test_a_remedy_names_what_a_field_takes_in_words(line: str, remedy: str) -> None:
    (fault,) = {one.field: one for one in parse_task_toml(line).faults}.values()
    assert fault.remedy.startswith(remedy)


def test_a_key_that_nobody_reads_is_named_with_the_nearest_one_and_no_version_is_a_fault():
    parsed = parse_task_toml(
        OLD.replace("[environment]", "[enviroment]").replace("timeout_sec = 900", "timeoutsec = 9")
    )
    remedies = {one.field: one.remedy for one in parsed.unknown}
    assert remedies == {"enviroment": "did you mean environment?", "agent.timeoutsec": "did you mean timeout_sec?"}
    assert parsed.faults == () and not parse_task_toml(OLD).unknown and not parse_task_toml(NEW).unknown
    (new,) = parse_task_toml("[quantum]\nx = 1").unknown
    assert "did you mean" not in new.remedy
    assert parse_task_toml("version = '2.0'").faults == parse_task_toml("version = '7.0'").faults == ()
    assert parse_task_toml("[[steps]]\nname = 'a'").multi_step and not parse_task_toml("steps = []").multi_step


KEYS = st.sampled_from(
    ["cpus", "memory", "memory_mb", "allow_internet", "network_mode", "env", "user", "timeout_sec", "os", "workdir",
     "name"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["1", "-1", "nan", "inf", "true", "'x'", "''", "'2G'", "[1]", "['a']", "{}", "{a = 1}", "1979-05-27", "9" * 20]
)  # fmt: skip
SECTIONS = st.sampled_from(["task", "metadata", "environment", "agent", "verifier", "solution", "other"])


@given(st.dictionaries(SECTIONS, st.dictionaries(KEYS, VALUES)))
def test_no_file_makes_the_parser_raise(sections: dict[str, dict[str, str]]) -> None:
    text = ""
    for section, table in sections.items():
        text += f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
    for fault in parse_task_toml(text).faults:
        assert fault.field and fault.says and "\n" not in fault.says
