"""The check of what the documentation tells people to type finds what cannot be typed."""

import runpy
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
HOOKS = runpy.run_path(str(CHECKOUT / "docs/hooks.py"))


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```sh\n.venv/bin/hc-ray swep -p x  # runs it\n```", "No such command 'swep'"),
        ("```sh\nhc-ray sweep -p x \\\n    --seed 3\n```", "No such option: --seed"),
        ("```console\nray exec cluster.yaml 'hc-ray show; exit'\n```", "Missing parameter: trial"),
        ("```sh\nhc-ray sweep --set solver.sample=8 | tee log\n```", "did you mean solver.samples?"),
        ("```yaml\nengine:\n  gpu: 2\n```", "did you mean engine.gpus?"),
        ("Say `hc-ray tasks chek FOLDER`.", "No such command 'chek'"),
        ("It is `solver.sample: 8` in a config.", "`solver.sample` is no setting"),
        ("Call `scripts/nothing --all`.", "`scripts/nothing` does not exist"),
    ],
)
def test_what_cannot_be_typed_is_found(page: str, said: str) -> None:
    faults = list(HOOKS["faults_of"](page))
    assert len(faults) == 1 and said in faults[0], faults


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = "[a](README.md#limits) [b](https://example.org/x) [c](docs/none.md)"
    assert list(HOOKS["dead_links"](page, CHECKOUT)) == ["the link docs/none.md leads nowhere"]
