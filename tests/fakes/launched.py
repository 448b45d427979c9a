"""The fake server as a program of the user's: ``launched.py --host H --port P [--say TEXT] [--after SECONDS]
[--delay SECONDS --slow TEXT] …``, where prompts that hold the slow text are answered late, by a function that adds. It
has a worker of its own, and lists as its model's facts the words and the variables that it was started with."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.scripts import echo_request

COMMAND = f"{sys.executable} {__file__} --host {{host}} --port {{port}}"
KEYS = ("HC_RAY_ENGINE_KEY", "VLLM_API_KEY", "LLAMA_API_KEY")
SHOWN = (*KEYS, "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "MY_SECRET_TOKEN")

ADDS = "```python\ndef add(a, b):\n    return a + b\n```\n"


def listed(url: str, key: str | None = None) -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/models", headers=headers)) as answer:
        return json.load(answer)["data"][0]


def main(words: list[str]) -> None:
    given = dict(itertools.pairwise(words))
    if "--say" in given:
        print(given["--say"].replace("|", "\n"), file=sys.stderr)
        sys.exit(3)
    time.sleep(float(given.get("--after", 0)))
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    key = next((os.environ[name] for name in KEYS if name in os.environ), None)
    if "--config" in given:
        key = Path(given["--config"]).read_text().removeprefix("api-key: ").strip()
    seen = {"words": words, "environment": {name: os.environ[name] for name in SHOWN if name in os.environ}}
    port, facts = int(given["--port"]), {"max_model_len": 4096, **seen}

    def answer(body: dict[str, Any]) -> Any:
        if "--slow" in given and given["--slow"] in prompt_of(body):
            time.sleep(float(given["--delay"]))
            return ADDS
        return echo_request(body)

    with EngineServer(answer, host=given["--host"], port=port, key=key, models=("m",), listed=facts):
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
