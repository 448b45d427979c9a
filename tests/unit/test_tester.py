import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.domain.suite import CATEGORIES
from hc_ray.selftests import tester
from hc_ray.selftests.gate import fault_of
from hc_ray.selftests.shown_examples import Target, targets_of
from tests.fakes.specs import read

SPEC, _ = read("Do this.\nThen that.")
TARGET = Target(kind="call", path="m.py", function="f", parameters=("a", "b = 2"))
FORMS: tuple[Profile, ...] = (Profile(test_form="chat"), Profile(test_form="completion"))


def answered(text, *, spec=SPEC, target=TARGET, category="boundary", form=FORMS[1]):
    """Input → test."""
    prompt = tester.ask(spec, target, category, profile=form, seed=1, temperature=0.5)
    made = tester.read(Completion(text=text), prompt, spec, target, category)
    return {} if isinstance(made, Malformed) else {test.input or test.stdin: test for test in made}


def test_calls_that_the_signature_cannot_take_are_left_out_and_an_answer_without_one_is_malformed():
    text = ") == 1\nassert f(1) == 2\nassert f(1, 2, 3) == 4\nassert f(1, c=2) == 4\nassert f(1, b=5) == 6"
    assert list(answered(text)) == ["f(1)", "f(1, b=5)"]
    prompt = tester.ask(SPEC, TARGET, "boundary", profile=FORMS[0], seed=1, temperature=0.5)
    assert isinstance(tester.read(Completion(text="I cannot"), prompt, SPEC, TARGET, "boundary"), Malformed)


def test_of_answers_and_refusals_the_inputs_are_kept_and_those_of_another_type_as_invalid_ones():
    tests = answered("1) == 2\nassert f(3)\nwith pytest.raises(ValueError):\n    f(None)\n", category="invalid_input")
    assert [(call, test.expectation.kind) for call, test in tests.items()] == [
        ("f(1)", "unknown"), ("f(3)", "unknown"), ("f(None)", "unknown"),
    ]  # fmt: skip
    spec, deliverable = read("Write `m.py` with `f(a)`. `f('x')` returns `1`.")
    (target,) = targets_of(deliverable)
    text = "'y') == 1\nassert f(3) == 2\n"
    assert list(answered(text, spec=spec, target=target)) == ["f('y')"]
    assert list(answered(text, spec=spec, target=target, category="invalid_input")) == ["f('y')", "f(3)"]


@pytest.mark.parametrize(("shows", "lines", "inputs"), [
    ("`sh t.sh a` prints `1`.", "a b\n- 'c d'\n3. sh t.sh --x\n# no\nrm $(ls)\nx; y\nit's\n",
     ["a b", "'c d'", "--x"]),
    ("\n\nInput:\n```\n3\n```\nOutput:\n```\n1\n```\n", "4\n- 5 6\nit's\n", ["4\n", "5 6\n", "it's\n"]),
])  # fmt: skip
def test_every_line_is_a_program_s_arguments_or_its_standard_input(shows: str, lines: str, inputs: list[str]) -> None:
    spec, deliverable = read(f"Write `t.sh`. {shows}")
    (target,) = targets_of(deliverable)
    for form in FORMS:
        context = tester.ask(spec, target, "boundary", profile=form, seed=1, temperature=0.5).context
        assert list(answered("\n" * bool(context) + lines, spec=spec, target=target, form=form)) == inputs


def test_prompts_of_one_task_share_their_beginning_hold_the_instruction_and_say_what_was_cut():
    prompts = [tester.ask(SPEC, TARGET, category, profile=FORMS[1], seed=1, temperature=0.5).text or ""
               for category in tester.ASKED]  # fmt: skip
    assert all(text.startswith("# Do this.\n# Then that.\n\nfrom m import f\n") for text in prompts)
    assert all(text.endswith("assert f(") for text in prompts) and len(set(prompts)) == len(prompts)
    spec, _ = read("Write it. " + "word " * 400 + "END.")
    for form in FORMS:
        prompt = tester.ask(spec, TARGET, "boundary", profile=form, seed=1, temperature=0.5,
                            workspace="a.csv begins:\nx\n[9 more lines]")  # fmt: skip
        whole = prompt.text or prompt.messages[0].content
        assert "END." in whole and "[9 more lines]" in whole


def test_a_category_that_nobody_is_asked_for_says_why() -> None:
    spec, deliverable = read("Write `/app/out.json` with the answer.")
    reasons = {category: tester.applies(category, spec, targets_of(deliverable)) for category in CATEGORIES}
    assert None not in reasons.values() and reasons["boundary"] == "nothing that takes an input is known beforehand"
    spec, deliverable = read("Write `m.py` with `f(a)`. `f(1)` returns `2`.")
    assert tester.applies("boundary", spec, targets_of(deliverable)) is None
    assert "refused" in str(tester.applies("invalid_input", spec, targets_of(deliverable)))


@given(st.text(alphabet=st.sampled_from("f(1, 'a\"[]{}=>-)#\n:assert raises"), max_size=120))
def test_any_answer_gives_only_tests_that_can_run(text: str) -> None:
    for form in FORMS:
        assert all(fault_of(test) is None for test in answered(text, form=form).values())
