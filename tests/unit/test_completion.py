"""What the Tab key offers, asked for as each shell asks."""

import os
import shutil
import subprocess
import sys

import pytest

from hc_ray.cli import app as cli
from hc_ray.cli.config_keys import values_at


@pytest.fixture
def bash(monkeypatch, capsys):
    """Completes a line as bash does; its last word is the one that is begun."""

    def offered(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_HC_RAY_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        with pytest.raises(SystemExit) as ended:
            cli.run([])
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return offered


@pytest.mark.parametrize(("line", "offers"), [
    ("hc-ray s", ["sweep", "status", "stats", "show", "skills"]),
    ("hc-ray tasks ch", ["check"]),
    ("hc-ray --ver", ["--version"]),
    ("hc-ray sweep --sa", ["--sandbox"]),
    ("hc-ray sweep -a ", list(values_at(("agents",)))),
    ("hc-ray sweep -a raw -a b", ["best_of_n"]),
    ("hc-ray run --agent o", ["oracle"]),
    ("hc-ray run --sandbox ", ["auto", "docker", "bwrap"]),
    ("hc-ray sweep --engine o", ["openai"]),
    ("hc-ray sweep --split h", ["holdout"]),
    ("hc-ray sweep --model smol", ["smollm2-135m-instruct"]),
    ("hc-ray sweep --set solver.sel", ["solver.selector="]),
    ("hc-ray run --set solver.selector=m", ["solver.selector=max_pass", "solver.selector=mbr"]),
    ("hc-ray sweep --set solver.use_skills=t", ["solver.use_skills=true"]),
    ("hc-ray sweep dem", ["demo"]),
    ("hc-ray report out --replay post", ["posterior"]),
])  # fmt: skip
def test_verbs_flags_and_values_are_completed(bash, line, offers):
    assert bash(line) == offers


def test_what_may_be_a_file_is_left_to_the_shell(bash, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "mine.txt").write_text("")
    assert bash("hc-ray sweep -p ") == [] and bash("hc-ray tasks check ") == []
    assert bash("hc-ray sweep mi") == ["mine.yaml"]
    assert bash(f"hc-ray run --config {tmp_path}/m") == [f"{tmp_path}/mine.yaml"]


def test_a_wrong_key_or_folder_offers_nothing_and_breaks_nothing(bash):
    for line in ("--set no.such=", "--set seeds=", "--set roles.solver.kind=x", "/no/such/folder/x", "--model nobodys"):
        assert bash(f"hc-ray sweep {line}") == []


def test_completion_is_told_in_one_line_of_the_help_and_listed_nowhere(capsys):
    assert cli.run(["--help"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "completion" in line.lower()]
    assert [line.strip() for line in lines] == ["To install tab completion for your shell: hc-ray --install-completion"]


@pytest.mark.parametrize("shell", cli.SHELLS)
def test_the_script_of_each_shell_is_shown_and_installed_below_the_home(shell, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli.run(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_HC_RAY_COMPLETE=complete_{shell}" in script and "hc-ray" in script
    assert list(tmp_path.iterdir()) == [] and cli.run(["--install-completion", shell]) == 0
    told = capsys.readouterr().out
    (installed,) = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.read_text().strip() == script.strip()
    ]
    assert str(installed) in told


@pytest.mark.parametrize("named", [[], ["tcsh"], ["bash", "zsh"]])
def test_a_shell_that_is_not_known_is_asked_for(named, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_shell_of_this_process", lambda: None)
    assert cli.run(["--show-completion", *named]) == 2 and "--show-completion zsh" in capsys.readouterr().err


@pytest.mark.parametrize(("shell", "variable"), [("zsh", "_TYPER_COMPLETE_ARGS"), ("fish", "_TYPER_COMPLETE_ARGS")])
def test_zsh_and_fish_get_the_verbs_with_their_help(shell, variable, monkeypatch, capsys):
    monkeypatch.setenv("_HC_RAY_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv(variable, "hc-ray swe")
    with pytest.raises(SystemExit):
        cli.run([])
    told = capsys.readouterr().out
    assert "sweep" in told and "Run agents on a dataset" in told


def test_a_real_bash_completes_by_the_installed_script(tmp_path):
    """The function of the script is called as readline calls it."""
    program = tmp_path / "hc-ray"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from hc_ray.cli.app import main; main()' \"$@\"\n")
    program.chmod(0o755)
    line = (
        'eval "$(hc-ray --show-completion bash)"; complete -p hc-ray; COMP_WORDS=(hc-ray sweep --sandbox b); '
        'COMP_CWORD=3; _hc_ray_completion hc-ray b --sandbox; echo "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    bash = shutil.which("bash")
    assert bash is not None
    ran = subprocess.run([bash, "-c", line], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.splitlines() == ["complete -o default -F _hc_ray_completion hc-ray", "bwrap"]
