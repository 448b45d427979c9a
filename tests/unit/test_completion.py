"""What the Tab key offers, asked for as each shell asks."""

import os
import sys

import pytest

from hc_ray.cli import app as cli
from tests.fakes.processes import ran


@pytest.mark.parametrize(("shell", "variable"), [
    ("bash", "COMP_WORDS"), ("zsh", "_TYPER_COMPLETE_ARGS"), ("fish", "_TYPER_COMPLETE_ARGS"),
])  # fmt: skip
def test_verbs_and_flags_are_completed_in_every_shell(shell, variable, monkeypatch, capsys):
    monkeypatch.setenv("_HC_RAY_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("COMP_CWORD", "1")
    for line, offers in {"hc-ray swe": "sweep", "hc-ray --ver": "--version"}.items():
        monkeypatch.setenv(variable, line.replace(" ", "\n") if shell == "bash" else line)
        with pytest.raises(SystemExit):
            cli.run([])
        assert offers in capsys.readouterr().out


def test_a_real_bash_completes_by_the_installed_script(tmp_path):
    """The function of the script is called as readline calls it."""
    program = tmp_path / "hc-ray"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from hc_ray.cli.app import main; main()' \"$@\"\n")
    program.chmod(0o755)
    line = ("hc-ray --install-completion >/dev/null; . ~/.bashrc; COMP_WORDS=(hc-ray sweep --sa); "
            'COMP_CWORD=2; _hc_ray_completion hc-ray --sa sweep; echo "${COMPREPLY[@]}"')  # fmt: skip
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    assert ran("bash", "-c", line, env=env, check=True).stdout.splitlines() == ["--sandbox"]
