"""From an answer of the model to a candidate."""

from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.agent import prompt_formats
from hc_ray.agent.deliverable import Deliverable
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.value import Value
from hc_ray.search.dedup import files_digest
from hc_ray.search.schedule import Slot


class Made(Value):
    """What an answer came to."""

    files: dict[str, str] = {}
    malformed: str | None = None


def read(prompt: Prompt, answer: Completion, deliverable: Deliverable, *, begun: Mapping[str, str]) -> Made:
    """The files of one answer. ``begun``: the files it goes on from, such as the attempt that it repairs; an answer
    that names one file of several keeps the others."""
    found = prompt_formats.read(answer, prompt, deliverable)
    return Made(malformed=found.reason) if isinstance(found, Malformed) else Made(files={**begun, **found})


def candidate(slot: Slot, made: Made, pool: Sequence[Candidate], **spent: Any) -> Candidate:
    """The candidate of a slot, marked where the pool has the same files. ``spent``: its tokens and seconds."""
    digest = files_digest(made.files) if made.files else ""
    original = next((one for one in pool if digest and one.digest == digest), None)
    return Candidate(
        id=slot.id,
        **slot.model_dump(exclude={"told"}),
        **made.model_dump(),
        digest=digest,
        duplicate_of=(original.duplicate_of or original.id) if original else None,
        **spent,
    )
