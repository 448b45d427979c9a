"""Reads an instruction into a ``Spec``."""

from hc_ray.domain.task import Environment
from hc_ray.spec.files import read_files
from hc_ray.spec.markdown import blocks, sentences
from hc_ray.spec.runs import read_runs
from hc_ray.spec.signatures import called_only, read_calls, read_signatures
from hc_ray.spec.spec import Spec


def read_spec(instruction: str, environment: Environment) -> Spec:
    """What ``instruction`` shows and names, with the files that ``environment`` is seen to bring. Pure; arbitrary text
    never raises."""
    text = instruction.replace("\r\n", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")
    parts = blocks(text)
    signatures = read_signatures(text, parts)
    calls = read_calls(text, parts, signatures)
    files = read_files(parts, environment)
    return Spec(
        instruction=instruction,
        workdir=environment.workdir,
        sentences=sentences(parts),
        signatures=(*signatures, *called_only(calls, signatures)),
        calls=calls,
        runs=read_runs(parts, files),
        files=files,
    )
