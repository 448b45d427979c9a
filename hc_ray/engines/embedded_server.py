"""The child process of ``EmbeddedServer``: one xllamacpp server on a port of the system's choice.

It prints one JSON line on its standard output, ``{"url": …}`` or ``{"error": …}``, and ends when its standard input
closes or its parent is gone. A parent-death signal is not used: the kernel ties it to the *thread* that started the
child, and an actor's worker thread may end long before the actor does."""

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="hc_ray.engines.embedded_server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args(argv)
    sealed_guard.install(data_root() / "sealed")
    # The line for the parent has a descriptor of its own: whatever the engine prints goes to the log.
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    threading.Thread(target=_watch_input, daemon=True).start()
    try:
        import xllamacpp

        server = xllamacpp.Server(_parameters(options))
    except Exception as error:
        print(json.dumps({"error": str(error)}), file=report, flush=True)
        os._exit(1)
    print(json.dumps({"url": server.listening_address}), file=report, flush=True)
    report.close()
    while True:  # the engine's own threads serve; this one only keeps the process
        time.sleep(3600)


def _parameters(options: argparse.Namespace) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {options.alias}
    parameters.hostnames = [options.host]
    if key := os.environ.pop("HC_RAY_ENGINE_KEY", None):
        parameters.api_keys = [key]
    parameters.port = 0
    parameters.n_parallel = options.parallel
    # llama.cpp divides the context among its slots unless the cache is unified; divided, no slot can starve another.
    parameters.n_ctx = options.context_tokens * options.parallel
    parameters.kv_unified = False
    parameters.cont_batching = True
    # A prompt cache makes an answer depend on what was asked before: same seed, same text needs it off.
    parameters.cache_prompt = False
    parameters.cache_ram_mib = 0
    parameters.cache_idle_slots = False
    parameters.ctx_shift = False
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.endpoint_metrics = False
    parameters.endpoint_props = False
    parameters.cors_origins = "http://127.0.0.1"
    return parameters


def _watch_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
