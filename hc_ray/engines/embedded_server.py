"""The program of ``EmbeddedServer``: one xllamacpp server."""

import argparse
import os
import sys
import time
from typing import Any

from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="hc_ray.engines.embedded_server")
    for text in ("--model", "--alias", "--host"):
        parser.add_argument(text, required=True)
    for number in ("--port", "--parallel", "--context-tokens", "--threads"):
        parser.add_argument(number, type=int, required=True)
    parser.add_argument("--read-weights", action="store_true", help="into memory of its own, instead of mapping them")
    options = parser.parse_args(argv)
    sealed_guard.install(data_root() / "sealed")
    import xllamacpp

    server = xllamacpp.Server(_parameters(options))  # noqa: F841 - it serves as long as it is held
    while True:  # the engine's own threads serve; this one keeps the process alive
        time.sleep(3600)


def _parameters(options: argparse.Namespace) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    if options.read_weights:
        parameters.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    parameters.model_alias = {options.alias}
    parameters.hostnames = [options.host]
    if key := os.environ.pop("HC_RAY_ENGINE_KEY", None):
        parameters.api_keys = [key]
    parameters.port = options.port
    parameters.n_parallel = options.parallel
    # llama.cpp divides the context among its slots unless the cache is unified. Divided, no slot can starve another.
    parameters.n_ctx = options.context_tokens * options.parallel
    parameters.kv_unified = False
    parameters.cont_batching = True
    # With a prompt cache, answers depend on earlier requests; equal seeds must give equal answers.
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


if __name__ == "__main__":
    main(sys.argv[1:])
