import pytest

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
    "At `http://localhost:8000`/index.html, or `localhost/x.json`: `GET` `/a.json`, **POST** /b.xml.",
    "| method | path |\n|---|---|\n| GET | /users.json |",
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


@pytest.mark.parametrize(("text", "found"), [
    ("```\ncat /app/in.txt > /app/out.txt\ncat /etc/other.conf /etc/tool/rules\n```",
     ["in.txt", "out.txt", "/etc/tool/rules"]),
    ("In `/app/out` write `/app/out/a.txt`.", ["out/a.txt"]),
    ("Write `/srv/out/report.json`. Sort `report.json` and `out/report.json`.", ["/srv/out/report.json"]),
])  # fmt: skip
def test_a_path_in_code_counts_where_it_lies_in_the_workdir_and_what_is_a_part_of_another_does_not(text, found):
    assert paths(text) == found


@pytest.mark.parametrize(("text", "found"), [
    ("Read `core.py` and `day.log`.", [("pkg/a/core.py", True, True), ("/srv/logs/day.log", True, True)]),
    ("Fix `a/core.py`, then `b/core.py`.", [("pkg/a/core.py", True, True), ("b/core.py", False, True)]),
    ("Fix `setup.cfg`.", []),
    ("Write `count.txt`.", [("count.txt", False, False)]),
    ("Write `count.txt`, that is /app/count.txt.", [("count.txt", False, True)]),
])  # fmt: skip
def test_a_name_is_the_one_file_of_the_environment_that_ends_with_it_else_taken_to_lie_in_the_workdir(text, found):
    assert [(file.path, file.exists, file.located) for file in named(text)] == found


def test_files_come_in_order_of_first_mention_each_once_and_below_the_root_they_need_a_suffix():
    text = "Read `table.csv`, write /app/b.txt and `/app/a.txt`; b.txt and `/app/table.csv` again: `/app/b.txt`."
    assert paths(text) == ["table.csv", "b.txt", "a.txt"]
    assert [file.exists for file in named(text)] == [True, False, False]
    root = Environment(workdir="/")
    assert paths("Use `/usr/bin/tool`, write /out.txt and `/srv/a.py`.", root) == ["out.txt", "srv/a.py"]
