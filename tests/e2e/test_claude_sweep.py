"""A sweep with an engine of kind ``anthropic``: its SDK, Ray, bubblewrap, a public task; only the server is fake."""

import json
import secrets

from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.processes import holding
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweeps import hc_ray, results

TESTS = '''```python
from greeting import greet


def test_a_name():
    """happy_path | "It returns a greeting for the name" """
    assert greet("Bo") == "Hello, Bo!"
```'''


def _claude(body):
    """Writes tests, or the file that is asked for, tries it and submits."""
    roles = [one["role"] for one in body["messages"]]
    if "You are a QA engineer" in body["messages"][0]["content"]:
        return TESTS if "Write tests for the result" in body["messages"][-1]["content"] else "test_a_name: right"
    code = 'def greet(name):\n    return f"Hello, {name}!"'
    write = f"```write greeting.py\n{code}\n```\n```sh\npython3 -c 'import greeting'\n```"
    return "```submit\n```" if "assistant" in roles else write


def test_a_sweep_with_claude_passes_counts_every_token_and_leaves_its_key_nowhere(tmp_path):
    key, out = f"sk-ant-{secrets.token_hex(20)}", tmp_path / "out"
    listed = {"max_input_tokens": 200_000}
    with data_home() as home, AnthropicServer(_claude, key=key, listed=listed, thinks="I greet.", cached=20) as server:
        words = ["--engine", "anthropic", "--model", "claude-fake", "--base-url", server.base_url, "-a", "raw", "-a",
                 "hc", "-p", "starter", "-i", "greeting", "--sandbox", "bwrap", "--mlflow-uri", "none"]  # fmt: skip
        env = {"HC_RAY_HOME": str(home), "ANTHROPIC_API_KEY": key}
        refused = hc_ray("sweep", *words, "-o", out, **{**env, "ANTHROPIC_API_KEY": f"{key}0"})
        assert refused.returncode == 2 and "export a valid API key in ANTHROPIC_API_KEY" in refused.stderr
        told = [line for line in refused.stderr.splitlines() if not line.startswith("asking ")]  # after some seconds
        assert len(told) == 1 and not out.exists()
        server.failures += [429, 529]
        done = hc_ray("sweep", *words, "-o", out, "--json", **env)
        assert done.returncode == 0, done.stderr[-3000:]
        asked = server.bodies()
        assert holding(tmp_path, {"key": key, "part of it": key[:20]}) == [] and key not in done.stderr + done.stdout
        assert holding(home, {"key": key}) == []
    trials = {one["agent_info"]["name"]: one for one in results(out).values()}
    assert {name: one["verifier_result"]["rewards"]["reward"] for name, one in trials.items()} == {
        "raw": 1.0,
        "hc": 1.0,
    }
    assert trials["hc"]["agent_result"]["metadata"]["self_tests"]["admitted"] >= 1
    engine = json.loads((out / "sweep.json").read_text())["config"]["engine"]
    assert (engine["kind"], engine["api_key_env"]) == ("anthropic", "ANTHROPIC_API_KEY")
    steps = [
        step for path in out.glob("trials/*/agent/trajectory.json") for step in _steps(json.loads(path.read_text()))
    ]
    answers = [step for step in steps if step.get("llm_call_count")]
    assert answers and all(step["reasoning_content"] == "I greet." for step in answers)
    told = [(step["metrics"]["prompt_tokens"], step["metrics"]["completion_tokens"]) for step in answers]
    probes = [sent for sent, body in zip(server.counted, asked, strict=True) if "Call the tool" in json.dumps(body)]
    assert sorted([*told, *probes]) == sorted(server.counted), "an answer is missing, or was counted twice"
    assert all("I greet." not in json.dumps(body) for body in asked)


def _steps(trajectory):
    inner = [step for one in trajectory.get("subagent_trajectories") or () for step in _steps(one)]
    return [*trajectory["steps"], *inner]
