"""Which of the states of lineages to hand in: what the suite picks, and where no test tells states apart the one whose
changed paths the others changed most alike. Ties go to the first submitted. Pure: a replay decides by the same."""

from collections import Counter
from collections.abc import Sequence

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import SelectorName
from hc_ray.domain.normalisation import normal
from hc_ray.search.answers import normal_form
from hc_ray.search.pool import Pool
from hc_ray.search.selection import Selection, deciding


def by_content(candidates: Sequence[Candidate]) -> Selection:
    """The pick by agreement on the content of every path that any of them changed."""
    held = [one for one in candidates if one.files]
    forms = {one.id: {path: normal(normal_form(path, text)) for path, text in one.files.items()} for one in held}
    paths = sorted({path for form in forms.values() for path in form})
    counts = {path: Counter(form.get(path) for form in forms.values()) for path in paths}
    others = max(1, (len(held) - 1) * len(paths))
    scores = {name: round(sum(counts[path][form.get(path)] - 1 for path in paths) / others, 6)
              for name, form in forms.items()}  # fmt: skip
    chosen = max(scores, key=lambda name: scores[name], default=None)
    alike = tuple(name for name in forms if chosen is not None and forms[name] == forms[chosen])
    return Selection(
        selector="mbr",
        chosen=chosen,
        scores=scores,
        clusters=(alike,) if alike else (),
        confidence=round(len(alike) / len(held), 6) if held else 0.0,
        why=f"agreement: {len(alike)} of {len(held)} states are alike" if held else "no candidate to pick",
        agreement=scores,
        silent=any(scores[name] == scores[chosen] for name in forms if chosen and name not in alike),
    )


def standing(pool: Pool, selector: SelectorName, held: Selection | None) -> tuple[Selection, list[Candidate]]:
    """What the suite picks where it can tell, else agreement; and of every state that is level with it one candidate,
    for a comparison. ``held``: what was picked before."""
    failed = {pool.candidate(one).digest for one in pool.rejected}
    able = [one for one in pool.candidates if one.digest not in failed]
    if deciding(pool.tests):
        best = pool.choose(selector, held)
        level = [one for one in able if best.scores.get(one.id) == best.scores.get(best.chosen or "")]
    else:
        best, level = by_content(able), [one for one in able if one.files]
    return best, list({one.digest: one for one in reversed(level)}.values())[::-1]


def complete(pool: Pool, chosen: str | None) -> bool:
    """Whether a state passes everything that can tell."""
    row, columns = pool.rows.get(chosen or ""), deciding(pool.tests)
    return row is not None and bool(columns) and all(row[i].outcome == "pass" for i in columns)
