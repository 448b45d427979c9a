import asyncio
import itertools
import json
from itertools import pairwise

import pytest

from hc_ray.agent.role import Exchange
from hc_ray.agent.workspace import state_of
from hc_ray.domain.config import AgentName
from hc_ray.domain.prompt import Completion, Prompt, ToolCall
from hc_ray.search import lineages
from tests.fakes import loop_trial
from tests.fakes.loop_trial import (
    INSTRUCTION,
    RIGHT,
    SUBMIT,
    SUMMARY,
    TASK,
    TESTS,
    WAIT,
    WRONG,
    besides,
    cut,
    each,
    place,
    says,
    sh,
    trial,
    write,
)
from tests.fakes.suites import call_test
from tests.fakes.time_up import ending
from tests.fakes.trajectories import faults, told_of

__all__ = ["place"]
FORMS = pytest.mark.parametrize("form", ["fenced", "calls"])


async def test_a_file_that_is_named_by_a_part_of_its_path_is_missed_only_where_none_ends_so(place):
    task = TASK.model_copy(update={"instruction": f"{INSTRUCTION} See `conf/mail.ini` and `conf/lost.ini`."})
    made = sh("mkdir -p deep/conf; touch deep/conf/mail.ini add.py")
    ran = await trial(place, says(made, SUBMIT), task=task)
    assert "Mentioned in the task, but not there: /app/conf/lost.ini. Is that intended?" in ran.said(2)


@FORMS
async def test_raw_hands_in_its_first_submission_and_the_first_submit_is_answered_with_the_difference(place, form):
    ran = await trial(place, says(SUBMIT, write(RIGHT) + "\n" + sh("rm given.txt; printf 'a\\0b' > odd")), actions=form)
    opening = ran.asked[0].messages
    assert INSTRUCTION in opening[1].content and "given.txt (6 bytes)" in opening[1].content
    assert ("```sh" in opening[0].content) == (form == "fenced") == (not ran.asked[0].tools)
    lacks = "Mentioned in the task, but not there: /app/add.py. Is that intended?"
    assert all(told in ran.said(1) for told in ("Not submitted yet", "(nothing)", lacks))
    assert ran.first.turns == ran.outcome.turns == 3 and ran.first.finish_reason == "submitted"
    assert len({prompt.seed for prompt in ran.asked}) == 3
    removed = {".hc-ray-deleted.json": b'["/app/given.txt"]'}
    assert ran.handed == {"app/add.py": RIGHT.encode(), "app/odd": b"a\0b", **removed}
    assert ran.outcome.chosen == "c1.0" and [one["tool"] for one in ran.told("act")] == ["write", "sh"]


async def test_a_second_submission_of_one_answer_and_one_after_a_failed_action_do_not_count(place):
    ran = await trial(place, says(f"{write(RIGHT)}\n{SUBMIT}\n{SUBMIT}", SUBMIT))
    assert "Not submitted yet" in ran.said(1) and "see above what you would hand in" in ran.said(1)
    assert ran.first.turns == 2 and ran.first.finish_reason == "submitted"
    both = sh("cat absent") + "\n" + SUBMIT
    ran = await trial(place, says(both, SUBMIT, both, write(RIGHT)))
    assert "failed. Look at that first" in ran.said(1) and "Not submitted yet" in ran.said(2)
    assert "failed. Look at that first" in ran.said(3) and ran.first.turns == 5


@FORMS
async def test_work_ends_at_no_submission_whose_answer_changed_it_but_at_one_that_changed_nothing(place, form):
    again = f"{write(RIGHT)}\n{sh('echo checked')}\n{SUBMIT}"
    ran = await trial(place, says(write(WRONG), SUBMIT, again, then=again), actions=form)
    told = "".join(message.whole for message in ran.asked[3].messages)
    assert "checked" in told and told.count("Not submitted yet") == 2 and ran.first.turns == 4
    assert ran.first.finish_reason == "submitted" and ran.handed == {"app/add.py": RIGHT.encode()}
    ran = await trial(place, says(SUBMIT, write(RIGHT)), actions=form)
    assert ran.first.turns == 3, "what an answer of its own changed was seen"


async def test_what_is_no_text_is_told_in_the_difference_names_spelled_out_and_stored_and_handed_in_as_it_is(place):
    made = "rm given.txt; printf 'a\\0b' > odd; ln -s /etc/hostname link; echo x > own; chmod 600 own; "
    made += r"printf x > $'a\377'; printf x > $'a\376'; ln -s $'\377' named"
    ran = await trial(place, says(sh(made), SUBMIT))
    told = ran.said(2)
    for line in ("given.txt (removed)", "link (a link to /etc/hostname)", "odd (a file of 3 bytes)", "own (rights 600)",
                 r"named (a link to \udcff)", r"a\udcff (a file of 1 bytes)"):  # fmt: skip
        assert f"\n  {line}\n" in told
    assert told.count("own") == 1 and {"app/a\udcfe"} < ran.handed.keys() and not ran.first.all_text
    for one in (*ran.asked, *ran.journal, ran.outcome):
        assert one.model_dump_json(exclude={"differences"})


async def test_the_work_is_told_before_caches_elsewhere_of_which_folders_stand_for_what_they_hold(place):
    made = (
        "mkdir -p ~/.cache/b/{00..59} m/{0..99}; for f in ~/.cache/b/* m/*; do printf 'a\\0b' | tee $f/1 > $f/2; done"
    )
    told = (await trial(place, says(sh(f"{made}; echo x > main.go; echo y > ~/.own"), SUBMIT))).said(2)
    lines = told.partition("differs:\n")[2].splitlines()
    assert lines[:2] == ["  m/ (200 entries)", "  main.go"]
    assert [line.rpartition("/.")[2] for line in lines[2:4]] == ["cache/b/ (120 entries)", "own"]
    assert lines[4].startswith("- Mentioned")


async def test_prose_is_nudged_twice_before_it_ends_a_lineage_and_what_cannot_be_read_ends_it_as_data(place):
    ran = await trial(place, says(write(RIGHT), "Done.", "Really done.\n```python\nx\n```", then="I said so."))
    assert (ran.first.finish_reason, ran.first.turns, ran.handed) == ("prose", 4, {"app/add.py": RIGHT.encode()})
    assert all("held no action" in ran.said(number) and "block ```submit" in ran.said(number) for number in (2, 3))
    ran = await trial(place, says("Hm.", "Hm.", sh("true"), "Hm.", "Hm.", write(RIGHT)))
    assert (ran.first.finish_reason, ran.first.turns) == ("submitted", 8), "in a row"
    ran = await trial(place, says(then="```sh\ntouch half\n"))
    assert (ran.first.finish_reason, ran.first.turns, ran.outcome.chosen, ran.handed) == ("malformed", 3, None, {})
    assert "not closed" in ran.said(1) and "malformed" in (ran.first.malformed or "")


async def test_a_native_call_that_cannot_be_read_is_told_with_what_was_sent_which_the_history_lacks(place):
    call = ToolCall(id="1", name="sh", arguments='{"command": "ls",}')
    broken = Completion(text="I look.", tool_calls=(call,), finish_reason="stop")
    ran = await trial(place, says(broken, write(RIGHT)), actions="calls")
    assert 'not a JSON object. You sent: {"command": "ls",}' in ran.said(1) and ran.first.finish_reason == "submitted"


async def test_a_block_that_is_no_action_is_named_where_an_action_failed_or_none_ran(place):
    file = "```python x.py\nprint(1)\n```\n"
    ran = await trial(place, says(file + sh("python3 x.py"), file + sh("true"), file + SUBMIT, write(RIGHT)))
    assert "nothing came of it: `python x.py`" in ran.said(1) and "nothing came" not in ran.said(2)
    assert "nothing came of it: `python x.py`" in ran.said(3)
    ran = await trial(place, says(file, write(RIGHT)))
    assert "held no action" in ran.said(1) and "nothing came of it: `python x.py`" in ran.said(1)


async def test_what_was_cut_does_not_run_nor_what_would_end_the_sandbox_and_the_work_goes_on(place):
    ran = await trial(place, says(cut(sh("touch half") + "\n```write add.py\ndef" + "x" * 9000), write(RIGHT)))
    assert "was cut, so nothing of it ran" in ran.said(1) and ran.handed == {"app/add.py": RIGHT.encode()}
    assert len(ran.asked[1].messages[-2].content) < 2000 and ran.first.finish_reason == "submitted"
    ran = await trial(place, says(sh("rm -rf /"), write(RIGHT)))
    assert "refused: The command removes /" in ran.said(1) and ran.handed == {"app/add.py": RIGHT.encode()}
    assert not ran.told("act")[0]["allowed"]


async def test_what_was_thought_aloud_stays_out_of_the_history(place):
    thought = "<think>\n" + sh("touch no") + "\n</think>\n"
    ran = await trial(place, says(thought + write(RIGHT), "a secret</think>" + SUBMIT))
    assert ran.handed == {"app/add.py": RIGHT.encode()} and ran.first.turns == 3
    text = "".join(message.content for prompt in ran.asked for message in prompt.messages)
    assert "touch no" not in text and "secret" not in text and "I write." in text


async def test_a_lineage_that_does_the_same_again_and_again_is_warned_and_ended(place):
    ran = await trial(place, says(*["\n".join([sh("ls")] * 4)] * 2, then=write(RIGHT)))
    assert (ran.first.finish_reason, ran.first.turns) == ("repetition", 2)
    told = "".join(message.content for message in ran.asked[1].messages)
    assert "You have done this 3 times" in told and len(ran.told("act")) == 6


async def test_hc_answers_a_failing_submission_and_the_same_conversation_goes_on(place):
    ran = await trial(place, says(write(WRONG), SUBMIT, SUBMIT, write(RIGHT)), "hc", tests=TESTS)
    made = [(one.id, one.parent, one.turns) for one in ran.outcome.candidates]
    assert made == [("c1.0", None, 3), ("c1.1", "c1.0", 5)]
    assert (ran.outcome.chosen, ran.outcome.stop_reason, ran.outcome.self_pass) == ("c1.1", "complete", True)
    told = ran.said(3)
    assert "add(2, 3)" in told and "may be wrong" in told and "before seeing any work" in told
    assert all(after.messages[: len(before.messages)] == before.messages for before, after in pairwise(ran.asked))
    assert all(prompt.shared > 0.7 for prompt in ran.asked[1:]) and ran.handed == {"app/add.py": RIGHT.encode()}


async def test_of_many_failures_a_lineage_is_told_the_worst_and_how_many_there_are_besides(place):
    tests = [call_test(f"t{n}", f"add({n}, 3)", str(n + 3), path="add.py", confidence=0.9) for n in range(5)]
    ran = await trial(place, says(write(WRONG)), "hc", tests=tests, max_rounds=1)
    assert "- and 2 more\n" in ran.said(3)


async def test_a_state_that_differs_in_its_rights_alone_is_another_one(place):
    script = says(write(WRONG), SUBMIT, SUBMIT, sh("mkdir d; touch d/f; chmod 750 d; chmod 640 add.py"))
    ran = await trial(place, script, "hc", tests=TESTS, max_rounds=1, repairs=1)
    first, second = (one.files for one in ran.outcome.candidates)
    assert first == {"add.py": WRONG} and not any(one["disputed"] for one in ran.told("worked"))
    assert second["add.py (rights)"] == "(no text: rights 640)" and second["d"] == "(no text: a folder, rights 750)"


@pytest.mark.parametrize("turns", [9, 3])
async def test_the_same_state_again_is_a_dispute_and_ends_the_lineage_where_it_has_a_turn_left(place, turns):
    ran = await trial(place, says(write(WRONG)), "hc", tests=TESTS, max_rounds=1, max_turns=turns)
    assert [one["disputed"] for one in ran.told("worked")] == [turns > 3] and len(ran.outcome.candidates) == 1
    assert ran.told("dispute") == [{"tests": ["t2", "t5"]}] * (turns > 3) and ran.outcome.chosen == "c1.0"


@pytest.mark.parametrize("solved", [False, True])
async def test_a_test_that_three_lineages_dispute_and_none_passes_judges_nobody_any_more(place, solved):
    wrong = call_test("wrong", "add(1, 1)", "3", path="add.py", confidence=0.9)
    made = [f"{RIGHT}\nMORE = {number}\n" for number in range(7)]
    if solved:  # by one of the second generation: the others' insistence counts for nothing
        made[2] = "def add(a, b):\n    return a + b + (a == b)\n"
    ran = await trial(place, each(*made), "hc", tests=(*TESTS, wrong), max_rounds=3)
    disputed = [one["tests"] for one in ran.told("dispute")]
    if solved:
        assert (
            disputed == [["wrong"]] and ran.outcome.stop_reason == "complete" and b"a == b" in ran.handed["app/add.py"]
        )
        return
    assert disputed == [["wrong"], ["wrong"] * 3] and ran.outcome.stop_reason == "complete"
    assert len(ran.outcome.candidates) == 4 and ran.outcome.self_pass is False, "the frozen suite is what it was"


async def test_what_a_lineage_was_not_told_of_it_does_not_dispute(place):
    tests = [call_test(f"t{n}", f"add({n}, 3)", str(n + 3), path="add.py", confidence=0.9) for n in range(5)]
    ran = await trial(place, says(write(WRONG)), "hc", tests=tests, max_rounds=1)
    assert ran.told("dispute") == [{"tests": ["t0", "t1", "t2"]}]


async def test_a_display_is_told_the_turns_of_a_lineage_and_not_of_all_together(place):
    ran = await trial(place, each(WRONG, WRONG, WRONG, WRONG), "hc", tests=TESTS, max_turns=4, repairs=0)
    assert ran.outcome.turns > 4 and max(ran.turns) == 3 and ran.turns.count(1) > 1


async def test_best_of_n_picks_by_agreement_and_equal_states_are_duplicates(place):
    ran = await trial(place, each(WRONG, RIGHT, RIGHT.replace("    ", "        ")), "best_of_n")
    texts = {one.id: one.files["add.py"] for one in ran.outcome.candidates}
    assert len(texts) == 3 and [one.duplicate_of is None for one in ran.outcome.candidates].count(False) == 1
    assert "a + b" in texts[ran.outcome.chosen or ""] and b"a + b" in ran.handed["app/add.py"]
    assert ran.outcome.matrix is None and all(prompt.role == "solver" for prompt in ran.asked)


async def test_a_lineage_works_alike_for_every_agent_up_to_its_first_submission(place):
    script = says(sh("ls -a; echo $HOME; id"), write(WRONG) + "\n" + sh("cat *; cat absent"), SUBMIT)
    agents: tuple[AgentName, ...] = ("raw", "best_of_n", "hc")
    begun: dict[AgentName, dict[int, list[str]]] = {}
    for agent in agents:
        ran = await trial(place, script, agent, tests=TESTS if agent == "hc" else (), use_skills=True)
        owners: dict[str, list[Exchange]] = {}
        for one in ran.outcome.exchanges:
            owners.setdefault(one.owner, []).append(one)
        begun[agent] = {of[0].prompt.seed: [one.prompt.model_dump_json() for one in of[:4]] for of in owners.values()}
    assert [len(begun[agent]) for agent in agents] == [1, 3, 4]
    for agent in ("raw", "best_of_n"):
        for seed, prompts in begun[agent].items():
            assert len(prompts) == 4 and begun["hc"][seed] == prompts


async def test_summaries_of_tied_states_are_compared_where_no_test_tells_them_apart(place):
    script = each(WRONG, *(RIGHT + f"\n\nMORE = {i}\n" for i in range(6)))

    def answer(prompt: Prompt, turn: int, lineage: int) -> str | Completion:
        thought = f"<think>{'Hm. ' * 900}</think>"  # as a model that thinks before it says anything
        said = SUMMARY if lineage else SUMMARY.replace("}", ",}")  # no JSON
        other = {"summary": f"{thought}Here:\n{said}", "tournament": f"{thought}The second, so:\n2"}
        return other.get(prompt.purpose) or script(prompt, turn, lineage)

    ran = await trial(place, answer, "hc", samples=2, tournament=True)
    assert [one.id for one in ran.outcome.candidates] == ["c1.0", "c2.0", "c2.1"] and ran.outcome.chosen == "c2.0"
    assert "won the comparison of 3 summaries" in (ran.outcome.selection.why if ran.outcome.selection else "")
    assert sum(prompt.purpose == "summary" for prompt in ran.asked) == 3
    ran = await trial(
        place, answer, "hc", verdicts=(False, True), samples=2, max_rounds=2, tournament=True, refinement=1
    )
    (asked,) = {str(prompt.schema_) for prompt in ran.asked if prompt.purpose == "summary"}
    assert "approach" in asked and "description" not in asked, "what a docstring says is no prompt"
    for purpose in ("summary", "own_tests"):
        owners = [one.owner for one in ran.outcome.exchanges if one.prompt.purpose == purpose]
        assert len(owners) == len(set(owners)) > 2, "each is asked once"


async def test_a_comparison_may_find_none_better_and_then_the_choice_stays(place):
    alike = each(*(f"{RIGHT}MORE = {i}\n" for i in range(3)))
    script = besides(alike, summary=SUMMARY, tournament="They are alike.\n0")
    ran = await trial(place, script, "hc", samples=2, tournament=True)
    (asked,) = (prompt.messages[-1].content for prompt in ran.asked if prompt.purpose == "tournament")
    assert "or 0 if none is better" in asked and ran.outcome.chosen == "c1.0"
    assert ran.outcome.selection and ran.outcome.selection.silent and "won" not in ran.outcome.selection.why


@pytest.mark.parametrize(("tests", "generations"), [(TESTS, 4), ((), 2)])
async def test_a_suite_that_tells_is_worth_more_generations_which_are_told_of_the_best(place, tests, generations):
    script = besides(each(*(f"{WRONG}# {number}\n" for number in range(4))), summary=SUMMARY)
    ran = await trial(place, script, "hc", tests=tests, samples=1, max_rounds=4, repairs=0)
    begun = [prompt.messages[1].content for prompt in ran.asked if len(prompt.messages) == 2]
    assert len(begun) == len(ran.outcome.candidates) == generations
    assert ["Others have attempted" in one for one in begun] == [False, False, True, True][:generations]


async def test_level_states_are_told_apart_by_the_other_lineages_own_tests(place):
    script = each(WRONG, RIGHT, RIGHT + "\n\nMORE = 1\n")

    def answer(prompt: Prompt, turn: int, lineage: int) -> str | Completion:
        if prompt.purpose != "own_tests":
            return script(prompt, turn, lineage)
        value = -1 if "a - b" in prompt.messages[-3].content + prompt.messages[2].content else 5
        test = f'def test_sum():\n    """happy_path | adds"""\n    import add\n    assert add.add(2, 3) == {value}\n'
        return f"```python\nimport sys\nsys.path.insert(0, '/app')\n\n{test}```"

    ran = await trial(place, answer, "hc", samples=2, tournament=True)
    (told,) = ran.told("own_tests")
    assert told["counted"] == [True, True, True]
    assert told["scores"] == {"c1.0": 0.0, "c2.0": 0.5, "c2.1": 0.5}, "the wrong lineage's own test counts as well"
    why = ran.outcome.selection.why if ran.outcome.selection else ""
    assert ran.outcome.chosen == "c2.0" and "2 of 3 level states pass most" in why


async def test_after_a_failed_verdict_another_generation_works_and_what_failed_is_not_handed_in_again(place):
    ran = await trial(place, each(WRONG, RIGHT, WRONG), "hc", verdicts=(False, True), samples=2, max_rounds=1,
                      refinement=1)  # fmt: skip
    assert ran.outcome.bits == (False, True) and len(ran.outcome.submissions) == 2
    found = {one.id: "".join(one.files.values()) for one in ran.outcome.candidates}
    assert list(found) == ["c1.0", "c2.0", "c2.1"] and ran.outcome.chosen and "a + b" in found[ran.outcome.chosen]


async def test_disputes_go_on_under_the_tests_that_a_refinement_adds(place):
    texts = [WRONG, *(f"{WRONG}MORE = {number}\n" for number in range(2))]
    ran = await trial(
        place, each(*texts), "hc", tests=TESTS, verdicts=(False, True), samples=2, max_rounds=1, refinement=1
    )
    assert ran.told("refine")[0]["added"] and len(ran.told("dispute")) == 2


async def test_a_decomposers_parts_are_told_to_the_lineages_of_hc(place):
    parts = [{"name": name, "goal": f"Do {name}.", "hint": f"Mind {name}."} for name in ("one", "two", "three")]

    script = besides(says(write(RIGHT)), decompose=json.dumps({"parts": parts}))
    ran = await trial(place, script, "hc", tests=TESTS, decompose="model")
    assert "The work in parts:\n1. Do one. Mind one.\n2. Do two. Mind two." in ran.asked[1].messages[1].content
    assert ran.outcome.stop_reason == "complete"


async def test_a_context_too_small_for_the_instruction_hands_in_the_untouched_workspace(place):
    ran = await trial(place, says(write(RIGHT)), context=600)
    assert (ran.first.finish_reason, ran.outcome.chosen, ran.handed, ran.asked) == ("context", None, {}, [])
    assert "(context)" in (ran.first.malformed or "")


@pytest.mark.parametrize("shown", [1000, 9000])
async def test_of_an_output_a_model_is_shown_as_much_as_was_set_whatever_its_context(place, shown):
    long = sh("head -c 20000 /dev/zero | tr '\\0' x")
    ran = await trial(place, says(long), context=8192, observation_chars=shown)
    assert shown * 0.8 < ran.said(1).count("x") < shown * 1.05


async def test_a_long_history_is_compacted_and_the_work_goes_on(place):
    def answer(prompt: Prompt, turn: int, lineage: int) -> str:
        if prompt.purpose == "notes":
            return "Nothing is done yet."
        ran.append(turn)
        return SUBMIT if len(ran) > 40 else sh(f"cd /opt; seq {len(ran) * 100} {len(ran) * 100 + 700}")

    ran: list[int] = []
    long = await trial(place, answer, context=4096, max_turns=60, tokens=10**7)
    compactions = long.told("worked")[0]["compactions"]
    assert long.first.finish_reason == "submitted" and compactions > 1
    moved = {told.content for one in long.asked for told in one.messages if "working directory: /opt" in told.content}
    assert 1 < len(moved) <= 1 + compactions * 2, "told again only where it may have been forgotten"
    for prompt in long.asked:
        assert INSTRUCTION in prompt.messages[1].content and all(a.role != b.role for a, b in pairwise(prompt.messages))


@pytest.mark.parametrize(("agent", "lineage"), [("raw", 1500), ("best_of_n", 9000), ("hc", 1500), ("hc", 9000)])
async def test_tokens_are_bounded_for_a_lineage_and_for_the_trial(place, agent, lineage):
    dense = says(then=sh("python3 -c 'print(\"+-\" * 700)'; date +%N") + "\n" + "because " * 40)
    ran = await trial(place, dense, agent, tokens=4 * lineage, tests=TESTS)
    assert {one.finish_reason for one in ran.outcome.candidates} == {"tokens"} and ran.outcome.turns > 0
    assert all(0 < one.prompt_tokens + one.completion_tokens <= lineage for one in ran.outcome.candidates)
    asked = ran.outcome.prompt_tokens - ran.outcome.shared_tokens
    assert asked + ran.outcome.completion_tokens <= 4 * lineage
    assert asked == sum(one.prompt_tokens for one in ran.outcome.candidates)


async def test_where_the_time_is_over_the_workspace_is_handed_in_as_it_lies(place, monkeypatch):
    monkeypatch.setattr(loop_trial, "CLOCKS", ending(monkeypatch))
    ran = await trial(place, says(write(RIGHT), WAIT))
    assert (ran.outcome.stop_reason, ran.first.finish_reason, ran.outcome.unanswered) == ("timeout", "timeout", 1)
    assert ran.outcome.chosen == "c1.0" and ran.handed == {"app/add.py": RIGHT.encode()}
    none = await trial(place, says(WAIT))
    assert (none.outcome.candidates, none.outcome.chosen, none.handed) == ((), None, {})


async def test_where_the_time_is_over_every_lineage_leaves_its_workspace_however_long_a_look_takes(place, monkeypatch):
    looks = itertools.count()

    async def slow(sandbox):
        await asyncio.sleep(0.5 * next(looks))
        return await state_of(sandbox)

    monkeypatch.setattr(lineages, "state_of", slow)
    monkeypatch.setattr(loop_trial, "CLOCKS", ending(monkeypatch))
    ran = await trial(place, says(write(RIGHT), f"{WAIT} 3"), "best_of_n")
    assert [one.files for one in ran.outcome.candidates] == [{"add.py": RIGHT}] * 3 and ran.outcome.unanswered == 3


@FORMS
async def test_a_trajectory_lists_each_message_once(place, form):
    answers = says(sh("ls"), "Hm.", cut("half"), "<think>no</think>" + write(WRONG), SUBMIT, SUBMIT, write(RIGHT))
    ran = await trial(place, answers, "hc", tests=TESTS, actions=form)
    told = told_of(ran.outcome)
    assert faults(told) == []
    steps = told["subagent_trajectories"][0]["steps"]
    last = ran.asked[-1].messages
    assert [step["message"] for step in steps if step["source"] != "agent"] == [
        message.content for message in last if message.role != "assistant"
    ]
    assert sum(step["source"] == "agent" for step in steps) == len(ran.asked) == 8
    called = [[call["function_name"] for call in step["tool_calls"]] for step in steps if "tool_calls" in step]
    assert called == [["sh"], ["write"], ["submit"], ["submit"], ["write"], ["submit"]]
