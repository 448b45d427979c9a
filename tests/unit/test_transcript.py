import pytest

from hc_ray.agent.transcript import KEPT_TURNS, Transcript
from hc_ray.domain.prompt import Message, ToolCall

TASK = "The task, whole. " * 200
LONG = "a line of output\n" * 60


def grown(turns: int, *, room: int = 100_000, output: str = LONG) -> Transcript:
    made = Transcript("system", TASK, room=room)
    for number in range(turns):
        made.add(f"answer {number}", f"result {number}\n{output}")
    return made


def roles(messages: tuple[Message, ...]) -> str:
    return "".join(one.role[0] for one in messages)


def test_what_is_asked_besides_counts_as_new_and_a_short_output_is_no_worse_than_its_stub():
    made = grown(3)
    assert made.sent() == 0.0 and made.sent() == 1.0 and 0.0 < made.sent(10_000) < 0.7
    made = grown(12, room=100, output="")
    before = made.messages
    made.drop_outputs()
    assert made.messages == before


def test_a_turn_of_native_calls_has_an_answer_to_each_call_and_the_last_says_what_is_left() -> None:
    made = grown(1)
    calls = [ToolCall(id=one, name="sh", arguments="{}") for one in "ab"]
    made.add_calls("", calls, ["first", "second"], "[3 turns left]")
    *_, answer, first, second = made.messages
    assert answer.tool_calls == tuple(calls) and (first.tool_call_id, second.tool_call_id) == ("a", "b")
    assert first.content == "first" and second.content == "second\n\n[3 turns left]"


def test_compaction_drops_old_outputs_first_and_notes_take_the_place_of_all_turns_but_the_last():
    made = grown(12, room=6000)
    before = made.messages
    assert made.full and made.drop_outputs() and not made.full
    assert made.messages[:2] == before[:2] and made.messages[-2 * KEPT_TURNS :] == before[-2 * KEPT_TURNS :]
    assert [one.content for one in made.messages[2::2]] == [f"answer {number}" for number in range(12)]
    assert "left out" in made.messages[3].content and roles(made.messages) == "su" + "au" * 12
    assert not grown(12, room=500).drop_outputs()
    made = grown(12, room=3000)
    before = made.messages
    assert made.summarised("It is half done.")
    assert made.messages[0] == before[0] and made.messages[1].content.startswith(TASK)
    assert "It is half done." in made.messages[1].content
    kept = len(made.messages) - 2
    assert 0 < kept <= 2 * KEPT_TURNS and made.messages[2:] == before[-kept:]
    assert roles(made.messages) == "su" + "au" * (kept // 2)
    assert not grown(12, room=300).summarised("x"), "no room for the task itself"


@pytest.mark.parametrize("rate", [1, 2, 6])
def test_the_server_s_own_count_is_believed(rate: int) -> None:
    made = grown(5)
    made.sent()
    characters = sum(len(one.content) for one in made.messages)
    made.counted(characters // rate)
    assert made.tokens == characters // rate
    made.add("more", LONG)
    assert made.tokens > characters // rate
