"""What finished lineages leave for others: a summary each, in a schema (arXiv 2604.16529). A second generation is told
those of the best; a tournament compares them in small groups where tests cannot tell states apart."""

import json
import re
from collections.abc import Sequence

from pydantic import ValidationError

from hc_ray.agent.prompt_templates import template
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.value import Value
from hc_ray.search.lineages import Run

_TOLD = 3
"""Summaries that a second generation is told."""
_TOKENS = 900


class Summary(Value):
    """What a lineage says of its own work."""

    approach: str
    done: str
    verified: str
    doubts: str

    @property
    def text(self) -> str:
        return f"Approach: {self.approach}\nDone: {self.done}\nVerified: {self.verified}\nDoubts: {self.doubts}"


async def summary_of(run: Run) -> Summary | None:
    """The summary of a lineage; None where it gives none."""
    return read(await run.ask("summary", template("summary"), tokens=_TOKENS, schema=Summary.model_json_schema()))


def read(text: str) -> Summary | None:
    """A summary from an answer, in a fence or not."""
    found = re.search(r"\{.*\}", text, re.S)
    try:
        return Summary.model_validate(json.loads(found[0])) if found else None
    except (ValueError, ValidationError, RecursionError):
        return None


async def gathered(runs: Sequence[Run]) -> str:
    """What a second generation is told of the first."""
    found = [one for run in runs[:_TOLD] if (one := await summary_of(run)) is not None]
    if not found:
        return ""
    told = "\n\n".join(f"Attempt {i}:\n{one.text}" for i, one in enumerate(found, start=1))
    return template("generation").replace("$attempts", told)


async def tournament(pairs: Sequence[tuple[Candidate, Run]]) -> str | None:
    """The id of the state that the model prefers, by its lineages' summaries; None where it does not say."""
    if len(pairs) < 2:
        return None
    known = [(one, run, await summary_of(run)) for one, run in pairs]
    entries = [(one, run, summary) for one, run, summary in known if summary is not None]
    if len(entries) < 2:
        return None
    told = "\n\n".join(f"Result {i}:\n{summary.text}" for i, (_, _, summary) in enumerate(entries, start=1))
    answer = await entries[0][1].ask("tournament", template("tournament").replace("$results", told), tokens=_TOKENS)
    numbers = re.findall(r"\d+", answer.strip().splitlines()[-1]) if answer.strip() else []
    chosen = int(numbers[-1]) if numbers else 0
    return entries[chosen - 1][0].id if 1 <= chosen <= len(entries) else None
