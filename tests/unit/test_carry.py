"""A submission on its way into a grading sandbox: what is looked at, when again, and what comes of a difference."""

import pytest

from hc_ray.blind.grading import apply_submission, control, verify
from hc_ray.domain.errors import VerifierError
from tests.fakes.grading import MemoryPlace
from tests.fakes.tars import make_tar
from tests.fakes.tasks import sealed_task

IMAGE = {
    "workdir": "/app",
    "path": ["/usr/bin"], "programs": {"python3": ["/usr/bin/python3"]}, "pytest": "own",
    "pythons": [{"program": "/usr/bin/python3", "stdlib": ["/usr/lib/python3"], "path": ["/usr/lib/python3"]}],
    "sessions": [{"loaded": {"json": ["/usr/lib/python3/json.py"]}, "mapped": ["/usr/lib/libc.so.6"]}],
}  # fmt: skip
OUTSIDE, INSIDE = make_tar({"/usr/bin/jq": "x"}), make_tar({"/app/a.py": "x"})


@pytest.fixture
def sealed(tmp_path):
    return sealed_task(tmp_path, instruction=f"{tmp_path}\n"), tmp_path / "sealed"


def place(*probes):
    """Answers each look at the sandbox with the next of ``probes``, the last one again and again."""
    left = list(probes)

    def answer(sandbox, order):
        if "command" in order:
            return {"exit": 0, "rewards": {}, "witness": [], "output": ""}
        return left.pop(0) if len(left) > 1 else left[0]

    return MemoryPlace(answer)


async def done(sealed, tar, where):
    task, root = sealed
    return await verify.grade(task, control.make_submission(task, tar, "t"), sealed_root=root, place=where)


async def test_only_what_reaches_beyond_the_working_directory_is_looked_at_twice(sealed):
    inside, outside = place(IMAGE), place(IMAGE)
    await done(sealed, INSIDE, inside)
    await done(sealed, OUTSIDE, outside)
    assert inside.made[0].done[:2] == ["probe", "put_tar"] and inside.made[0].done.count("probe") == 1
    assert outside.made[0].done[:3] == ["probe", "put_tar", "probe"]
    again = outside.made[0].orders[1]
    assert (again["session"], again["imports"], again["deep"]) == (True, None, True)
    assert "known" not in again, "once a submission is in"
    assert again["mapped"] == ["/usr/lib/libc.so.6"]


async def test_what_resolves_to_something_else_is_tampered_and_a_sandbox_that_then_says_no_more_is_a_fail(sealed):
    moved = {**IMAGE, "programs": {"python3": ["/usr/local/bin/python3"]}}
    where = place(IMAGE, moved)
    verdict = await done(sealed, OUTSIDE, where)
    assert (verdict.passed, verdict.cause, verdict.tampered) == (False, "tampered", ("python3",))
    assert "run" not in where.made[0].done
    verdict = await done(sealed, OUTSIDE, place(IMAGE, None))
    assert (verdict.passed, verdict.cause) == (False, "submission_refused")
    with pytest.raises(VerifierError, match="runner"):
        await done(sealed, OUTSIDE, place(None))


async def test_a_look_that_fails_beside_a_submission_alone_is_its_fault_and_one_that_holds_then_is_nobodys(sealed):
    many = make_tar({f"/app/{number}": "" for number in range(9)})

    def where(*failing):
        """Sandboxes, of which those of these numbers do not answer what is asked with so many paths."""

        def answer(sandbox, order):
            beside = made.made.index(sandbox) in failing and len(order.get("paths", ())) > 8
            return None if beside else IMAGE if "command" not in order else {"exit": 0, "rewards": {}, "witness": []}

        made = MemoryPlace(answer)
        return made

    verdict = await done(sealed, many, where(0, 1))
    assert (verdict.passed, verdict.cause) == (False, "submission_refused")
    with pytest.raises(VerifierError):
        await done(sealed, many, where(0))
    assert (await done(sealed, many, where())).cause == "no_verdict"


async def test_the_image_s_session_is_run_and_its_programs_looked_up_once_for_a_task(sealed):
    first, second = place(IMAGE), place({**IMAGE, "sessions": []})
    await done(sealed, INSIDE, first)
    await done(sealed, make_tar({"/app/json.py": "x"}), second)
    assert first.made[0].orders[0]["session"] and not second.made[0].orders[0]["session"]
    assert second.made[0].orders[0]["mapped"] == ["/usr/lib/libc.so.6"]
    known = second.made[0].orders[0]["known"]
    assert (known["programs"], known["pytest"]) == (IMAGE["programs"], "own") and len(known["pythons"]) == 1


async def test_what_an_image_resolved_without_a_submission_is_not_asked_again_with_one(sealed):
    first, second = place({**IMAGE, "sessions": []}), place(IMAGE)
    await verify.grade(sealed[0], None, sealed_root=sealed[1], place=first)
    await done(sealed, INSIDE, second)
    (asked, *_), (again, *_) = first.made[0].orders, second.made[0].orders
    assert not asked["session"] and again["session"] and again["known"]["programs"] == IMAGE["programs"]


async def test_where_an_empty_session_fails_every_module_it_could_load_is_trusted(sealed):
    where = place({**IMAGE, "sessions": [{"failed": True}]})
    verdict = await done(sealed, make_tar({"/app/queue.py": "x"}), where)
    assert verdict.tampered == ("/app/queue.py",)


def test_only_those_of_the_verifier_s_variables_are_shown_that_decide_what_is_resolved():
    given = {"PATH": "/a:${HERE:-/b}", "API_KEY": "secret", "PYTHONPATH": "/c"}
    assert apply_submission._environment(given) == {"PATH": "/a:/b", "PYTHONPATH": "/c"}
    assert apply_submission._environment({"PATH": "${NOT_SET_ANYWHERE}"}) == {}
