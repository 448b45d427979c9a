"""An engine without a model whose answers are a function of the prompt in normal form and the seed alone."""

import hashlib
import json
import re
from typing import Any

from tests.fakes.engine_server import prompt_of
from tests.fakes.normal_form import normal_form, of_data


def answer(body: dict[str, Any]) -> str:
    """What it says is neither always right nor always well-formed, so that suites, rounds, repairs and restarts all
    happen; and some of it shows addresses, times and temporary paths, which differ from run to run."""
    asked = of_data({name: value for name, value in body.items() if name != "model"})
    roll = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
    prompt = normal_form(prompt_of(body))
    if "You work on a task in a Linux sandbox" in prompt:
        return _acts(body, prompt, roll)
    if "You are a QA engineer" in prompt:
        return _tests(prompt)
    calls = re.findall(r"`(\w+)\(([^()`]*)\)`", prompt)
    name = calls[0][0] if calls else "main"
    told = [arguments for called, arguments in calls[1:] if called == name] or ["1, 2"]
    if "assert" in prompt:
        return "\n".join(f"assert {name}({told[0]}) == {value}" for value in (roll[1] % 3, roll[2] % 5, '"cba"')) + "\n"
    parameters = calls[0][1] if calls else "a"
    first = parameters.split(",")[0].strip() or "0"
    bodies = (
        f"return {parameters.replace(',', ' +') or 0}",
        f"return {first}[::-1]",
        f"return {first}",
        "return object()",
        f"raise RuntimeError(f'no answer at {{id({first})}} {{object()}}')",
        "import time, tempfile\n    return repr((time.time(), tempfile.mkdtemp()))",
        "import time\n    raise ValueError(f'failed at {time.time()} after {time.perf_counter():.6f} s')",
        "import os, tempfile\n    raise OSError(f'process id {os.getpid()} has no {tempfile.mkdtemp()}')",
        "return undefined_name",
    )
    code = f"def {name}({parameters}):\n    {bodies[roll[0] % len(bodies)]}\n"
    if roll[3] % 8 == 0:
        return "I would write a function for that, and then test it."
    return code.partition(":\n")[2] if "prompt" in body else f"```python\n{code}```\n"


def _acts(body: dict[str, Any], prompt: str, roll: bytes) -> str:
    """A lineage of the style ``loop``: it looks at what differs from run to run, writes a file that may be wrong, runs
    it, submits, and goes on where it is told of failures."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    name = (re.findall(r"`(\w+)\(", prompt) or ["main"])[0]
    if turn == 0:
        return '```sh\ndate -Iseconds; hostname; mktemp; echo "process id $$"; export WHO=me; cd /tmp\n```'
    if turn == 1:
        told = ("a + b", "a - b", "a * b", "object()")[roll[0] % 4]
        return f"```write /app/{name}.py\ndef {name}(a, b):\n    return {told}\n```"
    if turn == 2:
        call = f"import {name}; print({name}.{name}(3, 2), {name})"
        return f"```sh\ncd /app; echo $WHO; python3 -c '{call}'; time true; sleep 30 &\n```"
    if "These failed:" in str(body["messages"][-1]["content"]) and roll[1] % 4:
        return f"```sh\nsed -i 's/return .*/return a + b/' /app/{name}.py\n```\n```submit\n```"
    return "```submit\n```"


def _tests(prompt: str) -> str:
    name = (re.findall(r"`(\w+)\(", prompt) or ["main"])[0]
    if "name: right|" in prompt:
        return f'test_small: right | "Example: {name}(3, 2) returns" | ok\ntest_file: unsupported | | no'
    return f'''```python
import pathlib, sys
sys.path.insert(0, "/app")

def test_small():
    """happy_path | "returns the sum of its two numbers" """
    import {name}
    assert {name}.{name}(1, 1) == 2

def test_file():
    """existence | "Write the file" """
    assert pathlib.Path("/app/{name}.py").exists()
```'''
