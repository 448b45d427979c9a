"""Files that an instruction names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.task import Environment
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import NamedFile

APP = Environment(
    workdir="/app",
    files=("/app/table.csv", "/app/old.py", "/app/pkg/a/setup.cfg", "/app/pkg/b/setup.cfg", "/app/pkg/a/core.py",
           "/etc/tool/rules", "/srv/logs/day.log"),
)  # fmt: skip


def named(text: str, environment: Environment = APP) -> tuple[NamedFile, ...]:
    return read_spec(text, environment).files


def paths(text: str, environment: Environment = APP) -> list[str]:
    return [file.path for file in named(text, environment)]


@pytest.mark.parametrize(("text", "path"), [
    ("Write a function `f(x)` in `/app/solution.py`.", "solution.py"),
    ("Write a shell script /app/bin/run.sh that counts lines.", "bin/run.sh"),
    ("Store it as **/srv/out.json**.", "/srv/out.json"),
    ("Store it (as /tmp/out.json).", "/tmp/out.json"),
    ("Store it as '/srv/out.tar.gz', please", "/srv/out.tar.gz"),
    ("Run `python3 x --out=/srv/out.json`.", "/srv/out.json"),
    ("See /srv/out.py:12.", "/srv/out.py"),
    ("Build the program /app/bin/server.", "bin/server"),
    ("Add a rule to /etc/tool/rules.", "/etc/tool/rules"),
    ("Add a file /etc/tool/extra beside it.", "/etc/tool/extra"),
    ("Write src/main.rs.", "src/main.rs"),
    ("Write `./run.sh`.", "run.sh"),
    ("| file | what |\n|---|---|\n| `/srv/x.txt` | x |", "/srv/x.txt"),
    ("- `/app/Makefile`", "Makefile"),
    ("The library `/opt/lib/libz.so.1.2`.", "/opt/lib/libz.so.1.2"),
])  # fmt: skip
def test_a_path_is_a_located_file(text: str, path: str) -> None:
    (file,) = named(text)
    assert file.path == path and file.located


@pytest.mark.parametrize("text", [
    "See https://example.org/a/b.html and ftp://x/y.txt, or mail a@b.com.",
    "It answers `GET /health.json` and `/api/users` and POST /items/list.xml.",
    "Look at `/app/*.py`, `/app/<name>.txt`, `/app/{id}.json`, `/app/$X.log`, `/app/.../x.py`.",
    "The folder `/app/data/`, the workdir /app, and `/srv/logs`.",
    "Start with #!/usr/bin/env or `#!/bin/bash`. Write to /dev/null.txt and /proc/a.b.",
    "Use version 3.5, `v1.2.3`, /usr/lib/python3.11 and HTTP/1.1.",
    "Use `os.path`, `json.loads`, `df.csv()`, `a.b.c`, `console.log` and `Node.js`.",
    "Ask example.com or `example.com/a.html`.",
    "Yes and/or no, text/html, 3/4.",
    "Save it to /path/to/file.txt, `filename.txt` or `log_YYYY.txt`.",
    "The directory `/etc/nginx/conf.d` and /var/www/example.com.",
    "The bare name out.txt in prose.",
    "```\nout.txt\nopen('/srv/secret.txt')\n```",
    "~/x.py and `$HOME/x.py`",
])  # fmt: skip
def test_what_may_be_something_else_is_no_file(text: str) -> None:
    assert paths(text) == []


def test_a_full_path_in_a_block_of_code_counts_where_it_lies_in_the_workdir() -> None:
    assert paths("```\ncat /app/in.txt > /app/out.txt\ncat /etc/other.conf /etc/tool/rules\n```") == [
        "in.txt",
        "out.txt",
        "/etc/tool/rules",
    ]


def test_a_bare_name_is_the_one_file_of_the_environment_that_has_it() -> None:
    assert named("Read `core.py` and `day.log`.") == (
        NamedFile(path="pkg/a/core.py", exists=True, located=True),
        NamedFile(path="/srv/logs/day.log", exists=True, located=True),
    )


def test_a_bare_name_of_several_files_is_none() -> None:
    assert paths("Fix `setup.cfg`.") == []


def test_a_bare_name_that_nothing_has_is_taken_to_lie_in_the_workdir_and_not_located() -> None:
    assert named("Write `count.txt`.") == (NamedFile(path="count.txt", exists=False, located=False),)
    assert named("Write `count.txt`, that is /app/count.txt.")[0].located


def test_a_bare_name_stands_for_the_full_path_that_ends_with_it() -> None:
    text = "Write `/srv/out/report.json`. The keys of `report.json` are sorted, those of `out/report.json` too."
    assert paths(text) == ["/srv/out/report.json"]


def test_a_relative_path_is_the_one_file_that_ends_with_it_else_in_the_workdir() -> None:
    assert named("Fix `a/core.py`, then `b/core.py`.") == (
        NamedFile(path="pkg/a/core.py", exists=True, located=True),
        NamedFile(path="b/core.py", exists=False, located=True),
    )


def test_a_directory_of_a_named_file_is_no_file() -> None:
    assert paths("In `/app/out` write `/app/out/a.txt`.") == ["out/a.txt"]


def test_files_come_in_order_of_first_mention_each_once() -> None:
    text = "Read `table.csv`, write /app/b.txt and `/app/a.txt`; b.txt and `/app/table.csv` again: `/app/b.txt`."
    assert paths(text) == ["table.csv", "b.txt", "a.txt"]
    assert [file.exists for file in named(text)] == [True, False, False]


def test_with_the_root_as_workdir_a_path_needs_a_suffix() -> None:
    root = Environment(workdir="/")
    assert paths("Use `/usr/bin/tool`, write /out.txt and `/srv/a.py`.", root) == ["out.txt", "srv/a.py"]


_PIECES = st.sampled_from(
    ["/app/", "x.py", "`", "/", ".", "..", " ", "\n", "*", "~", "a.b", "//", ":", "é", "\0", "-", "="]
)


@settings(max_examples=200)
@given(st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=30).map("".join)))
def test_every_named_file_has_a_path_that_is_no_directory(text: str) -> None:
    for workdir in ("/app", "/", ""):
        for file in named(text, Environment(workdir=workdir)):
            assert file.path.strip("/.") and not file.path.endswith("/")
