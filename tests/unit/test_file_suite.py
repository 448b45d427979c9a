from hc_ray.domain.prompt import Prompt
from hc_ray.domain.suite import Cell, SelfTest, Suite
from hc_ray.engines.scripted import count_pieces
from hc_ray.search.pool import Pool
from hc_ray.selftests.file_suite import FileSuiteWriter
from hc_ray.selftests.runner import STOPPED
from tests.fakes.testers import a_tester, suite_of

TASK = (
    "**Task:**\n\nWrite `/app/sum.txt`.\n\nAn empty file gives 0. A line is a number.\n\n"
    'Example:\n\n```json\n{"sum": 17}\n```\n'
)
HEAD = "```python\nimport builtins\nfrom pathlib import Path\n\n\n"
CHECKS = {
    "kept": 'assert Path("sum.txt").read_text() == "6"',
    "contradicted": 'assert Path("sum.txt").read_text() == "7"',
    "asked_by_nobody": 'assert Path("sum.txt").read_text() == "8"',
    "faulty": 'assert Path("sum.txt").read_text() == 9',
    "unsteady": "builtins.seen = 1 - getattr(builtins, 'seen', 0)\n    assert builtins.seen",
    "needs": "import nobody_has_this\n    assert nobody_has_this",
    "stays": 'assert [*Path().glob("given*")]',
    "easy": 'assert Path("sum.txt").exists()',
}
ANSWER = 400
READINGS = """\
test_kept: right | "An empty file gives 0." | yes
test_contradicted: wrong | "A line is a number." | no
test_asked_by_nobody: unsupported | "" | nothing says so
test_faulty: broken | "" | a text is no number
"""


def written(*names: str) -> str:
    return HEAD + "\n\n".join(
        f'def test_{name}():\n    """happy_path | "An empty file gives 0." """\n    {CHECKS[name]}\n' for name in names
    ) + "```\n"  # fmt: skip


async def made(*rounds: str, **knobs: object) -> tuple[Suite, list[Prompt]]:
    """The suite of a tester that answers its rounds so, and what it was asked."""
    asked: list[Prompt] = []

    def answer(prompt: Prompt) -> str:
        asked.append(prompt)
        number = sum(one.purpose == "tests" for one in asked) - 1
        return READINGS if prompt.purpose == "reading" else rounds[number]

    usual = {"style": "files", "rounds": len(rounds), "tests_per_category_max": 20, "answer_tokens": ANSWER}
    suite = await suite_of(a_tester(answer), instruction=TASK, files={"given.txt": "1\n"}, **{**usual, **knobs})
    return suite, asked


def by_name(tests: tuple[SelfTest, ...]) -> dict[str, SelfTest]:
    return {(one.subject.function or "").removeprefix("test_"): one for one in tests}


async def test_the_gate_drops_what_is_unsteady_or_cannot_run_and_tells_guards_and_what_anything_passes():
    suite, _ = await made(written(*CHECKS))
    kept, dropped, why = by_name(suite.tests), by_name(suite.dropped), {one.id: one.reason for one in suite.gate}
    assert why[dropped["unsteady"].id].startswith("unstable")
    assert why[dropped["needs"].id] == "cannot run here: the environment has no module nobody_has_this"
    assert kept["stays"].guard and why[kept["stays"].id].startswith("a guard")
    assert not kept["easy"].guard and why[kept["easy"].id] == "judges nobody: the empty state passes it"
    assert [name for name, one in kept.items() if one.discriminates] == ["kept", "asked_by_nobody"]


async def test_a_test_that_the_gate_had_no_time_for_is_dropped_and_not_taken_for_one_that_fails_there():
    suite, _ = await made(written("stays"))
    writer = object.__new__(FileSuiteWriter)
    writer.reasons = {}
    (test,) = suite.tests
    assert writer._on_untouched(test, (STOPPED,)) is None
    assert writer.reasons == {test.id: "was not run here: others ran out of time"}


async def test_a_second_reading_drops_what_a_quotation_contradicts_and_doubts_what_it_finds_no_sentence_for():
    suite, asked = await made(written(*CHECKS))
    kept, why = by_name(suite.tests), {one.id: one.reason for one in suite.gate}
    assert "“A line is a number.” (no)" in why[by_name(suite.dropped)["contradicted"].id]
    assert [(one.confidence, one.weight) for one in map(kept.__getitem__, ("kept", "asked_by_nobody"))] == [
        (0.75, 1.0), (0.6, 0.5)
    ]  # fmt: skip
    assert "broken (a text is no number)" in why[kept["faulty"].id]
    pool = Pool()
    pool.tests = suite.tests
    pool.rows["right"] = tuple(Cell(outcome="fail" if one is kept["faulty"] else "pass") for one in suite.tests)
    assert pool.complete("right"), "what is broken judges nobody"
    assert "test_easy" not in asked[-1].messages[-1].content, "what tells nothing is not read"
    suite, asked = await made(written(*CHECKS), second_reading=False)
    assert "contradicted" in by_name(suite.tests) and [one.purpose for one in asked] == ["tests"]


async def test_a_quotation_of_several_sentences_covers_each_of_them():
    both = written("kept").replace("An empty file gives 0.", "An empty file gives 0. A line is a number.")
    _, asked = await made(both, "nothing", budget_tokens=50_000)
    assert "- A line is a number." not in asked[1].messages[-1].content


async def test_no_further_round_is_asked_for_once_there_are_enough_tests_and_two_of_each_category_among_them():
    alone = written("kept").replace("happy_path", "boundary").replace("test_kept", "test_alone")
    for first, asks in ((written("kept", "faulty"), 1), (written("kept"), 2), (written("kept", "faulty") + alone, 2)):
        _, asked = await made(first, "nothing", total_min=2, second_reading=False, budget_tokens=50_000)
        assert len(asked) == asks


async def test_a_round_is_told_what_there_is_and_what_is_missing_and_a_name_that_comes_again_replaces_its_test():
    again = written("kept", "faulty").replace('"6"', '"66"')
    suite, asked = await made(written("kept"), again, "nothing", budget_tokens=50_000)
    assert [one.subject.function for one in suite.tests] == ["test_kept", "test_faulty"]
    assert '"66"' in suite.tests[0].input and "round 3: " in suite.notes[0]
    told = asked[1].messages[-1].content
    assert "- test_kept (happy_path): An empty file gives 0." in told and "- A line is a number." in told
    assert "Fewer than 2 tests of: existence" in told and suite.reflections[0] in told
    assert "17" not in suite.reflections[0], "what a task shows is no sentence that wants a test"
    assert "Task:" not in suite.reflections[0] and "Example:" not in suite.reflections[0]
    assert "a test file of its own" in told and "a test file of its own" not in asked[0].messages[-1].content
    first, second = (count_pieces("".join(one.content for one in prompt.messages)) for prompt in asked[:2])
    both = first + count_pieces(written("kept")) + second + ANSWER + 50
    _, asked = await made(written("kept"), written("faulty"), budget_tokens=both)
    assert [one.purpose for one in asked] == ["tests", "reading"], "what a second reading costs is kept for it"
