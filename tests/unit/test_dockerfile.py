import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.task import Copy
from hc_ray.tasks.dockerfile import absent, parse_dockerfile, placed
from hc_ray.tasks.dockerfile_lines import expand, words


def test_a_plain_dockerfile_gives_base_workdir_env_copies_and_arg_its_defaults():
    parsed = parse_dockerfile("FROM debian:bookworm\nWORKDIR /app\nENV A=1\nCOPY data.txt .\nUSER nobody\n")
    assert parsed.base == "debian:bookworm" and parsed.workdir == "/app"
    assert parsed.env == {"A": "1"} and parsed.copies == (Copy(sources=("data.txt",), destination="/app/"),)
    assert parsed.run_steps == () and parsed.unsupported is None
    parsed = parse_dockerfile("ARG V=3.11\nARG N=py:${V}-slim\nFROM $N\nARG V\nENV GOT=$V NOT=$N\n")
    assert parsed.base == "py:3.11-slim" and parsed.env == {"GOT": "3.11", "NOT": ""}


def test_continuations_are_joined_over_comments_and_blank_lines():
    parsed = parse_dockerfile("# hello\nFROM x\nRUN a && \\\n# not this\n\n   b && \\\n  c\n")
    (step,) = parsed.run_steps
    assert step.split() == ["RUN", "a", "&&", "b", "&&", "c"]
    assert "Windows" in (parse_dockerfile("# escape=`\nFROM x\n").unsupported or "")


def test_env_is_read_in_both_forms_with_earlier_values_and_the_usual_path():
    parsed = parse_dockerfile("FROM x\nENV A=\"b c\" D='e $A' F=g\\ h\nENV OLD some  words here\n")
    assert parsed.env == {"A": "b c", "D": "e $A", "F": "g h", "OLD": "some words here"}
    assert parse_dockerfile("FROM x\nENV A=1\nENV A=2 B=$A\n").env == {"A": "2", "B": "1"}
    assert parse_dockerfile("FROM x\nENV PATH=/opt/x/bin:$PATH\n").env["PATH"].startswith("/opt/x/bin:/usr/local/sbin:")


def test_relative_workdirs_add_up_and_a_stage_built_on_another_inherits_what_it_said():
    assert parse_dockerfile("FROM x\nENV D=c\nWORKDIR /a\nWORKDIR b\nWORKDIR $D/../d\n").workdir == "/a/b/d"
    assert parse_dockerfile("FROM x\n").workdir is None
    parsed = parse_dockerfile("FROM debian AS Base\nENV A=1\nWORKDIR /w\nRUN x\nFROM base\nENV B=2\n")
    assert parsed.base == "debian" and parsed.env == {"A": "1", "B": "2"}
    assert parsed.workdir == "/w" and parsed.run_steps == ("RUN x",)


def test_copy_reads_the_exec_form_its_flags_and_whether_a_source_is_a_folder():
    parsed = parse_dockerfile('FROM x\nWORKDIR /w\nCOPY --chown=1:1 ["a b", "c", "to/"]\n')
    assert parsed.copies == (Copy(sources=("a b", "c"), destination="/w/to/"),) and parsed.unsupported is None
    text = "FROM x\nWORKDIR /w\nCOPY src /dst\nCOPY one /file\nCOPY . .\n"
    copies = parse_dockerfile(text, files=["src/a.py", "one"]).copies
    assert [copy.destination for copy in copies] == ["/dst/", "/file", "/w/"]


def test_a_source_that_the_context_lacks_is_named_but_for_wildcards_and_what_lies_below_a_link():
    text = "FROM x\nARG d=data\nCOPY . /a\nCOPY $d/ ../x.py ./link/y /b/\nCOPY x*.py opt[s] /c/\nADD gone dta /d/\n"
    files = ("Dockerfile", "data/a.txt", "x.py", "link")
    assert absent(parse_dockerfile(text, files=files).copies, files) == ("gone", "dta")


def test_what_only_a_builder_can_copy_is_a_run_step():
    text = (
        "FROM golang AS build\nRUN make\nFROM debian\nCOPY --from=build /x /y\nADD https://e.org/f /f\n"
        "ADD d.tar.gz /d\nADD plain /p\nCOPY --from=busybox:1 /a /b\n"
    )
    parsed = parse_dockerfile(text)
    assert [step.split()[0] for step in parsed.run_steps] == ["COPY", "ADD", "ADD", "COPY"]
    assert [copy.sources for copy in parsed.copies] == [("plain",)] and parsed.base == "debian"
    assert parsed.bases == ("golang", "debian", "busybox:1")


def test_what_needs_buildkit_is_refused_with_its_line_and_what_only_looks_like_a_heredoc_is_not():
    for line, says in {
        "RUN --mount=type=cache,target=/x make": "RUN --mount",
        "RUN <<EOF\nWHAT is this\nEOF": "heredoc",
        "COPY <<EOF /x\nUNKNOWN\nEOF": "heredoc",
        "COPY --chmod=755 a b": "COPY --chmod",
        "ADD --checksum=sha256:0 http://e.org/a b": "ADD --checksum",
    }.items():
        parsed = parse_dockerfile(f"FROM x\n{line}\nENV AFTER=1\n")
        assert parsed.unsupported is not None, line
        assert says in parsed.unsupported and "line 2" in parsed.unsupported and parsed.env == {"AFTER": "1"}
    assert parse_dockerfile("FROM x\nRUN echo $((1<<3)) && cat <<<word\n").unsupported is None


def test_a_foreign_frontend_and_no_dockerfile_are_refused_and_dockers_own_is_a_comment():
    assert "BuildKit" in (parse_dockerfile("# syntax=acme/frontend:1\nFROM x\n").unsupported or "")
    assert "BuildKit" in (parse_dockerfile("# syntax=docker/dockerfile:1-labs\nFROM x\n").unsupported or "")
    assert parse_dockerfile("# syntax=docker/dockerfile:1.7\nFROM x\n").unsupported is None
    assert parse_dockerfile("").unsupported == "the Dockerfile has no FROM"
    assert "before the first FROM" in (parse_dockerfile("RUN x\nFROM y\n").unsupported or "")
    assert "unknown instruction" in (parse_dockerfile("FROM x\nHELLO you\n").unsupported or "")
    assert "names no image" in (parse_dockerfile("FROM $NOTHING\n").unsupported or "")


def test_words_split_outside_quotes_only_and_values_are_put_in_with_defaults_alternatives_and_escapes():
    assert words("a 'b c' \"d\\\"e\" f\\ g ''") == ["a", "b c", 'd"e', "f g", ""]
    values = {"A": "1", "E": ""}
    assert expand("${A:-x} ${E:-y} ${Z:-$A} ${A:+z} ${Z:+z}|", values) == "1 y 1 z |"
    assert expand("\\$A '$A' \"$A\" $ ${", values) == "$A '$A' \"1\" $ ${"


_WORDS = "FROM ARG ENV COPY ADD RUN WORKDIR USER AS --from= --chmod=7 [ ] \" ' \\ ` # $ ${ } :- <<EOF EOF = a /b .. ."
_pieces = st.sampled_from([*_WORDS.split(), "\n", "\r\n", " ", "# escape=`\n"])


@settings(max_examples=100)
@given(st.one_of(st.text(), st.lists(_pieces, max_size=40).map("".join), st.lists(_pieces, max_size=40).map(" ".join)))
def test_any_text_is_read_without_an_exception(text):
    parsed = parse_dockerfile(text, files=["a", "b/c"])
    assert parsed.unsupported is not None or "from" in text.lower()
    for copy in parsed.copies:
        assert copy.destination.startswith("/") or parsed.workdir is None
        assert copy.below("/w").destination.startswith("/")
    assert parsed.workdir is None or parsed.workdir.startswith("/")


@pytest.mark.parametrize(("line", "places"), [
    ("COPY a.txt /app/b.txt", ("/app/b.txt",)), ("COPY a.txt in/c.csv ./", ("/app/a.txt", "/app/c.csv")),
    ("COPY . /app", ("/app/a.txt", "/app/in/c.csv", "/app/in/deep/d.json")),
    ("COPY in /data/", ("/data/c.csv", "/data/deep/d.json")),
    ("COPY ./in/ /data", ("/data/c.csv", "/data/deep/d.json")), ("COPY *.txt /app/", ("/app/a.txt",)),
    ("COPY i? /x/", ("/x/c.csv", "/x/deep/d.json")), ("COPY nothing /app/", ()),
])  # fmt: skip
def test_where_the_files_of_the_context_come_to_lie(line, places):
    files = ["a.txt", "in/c.csv", "in/deep/d.json"]
    parsed = parse_dockerfile(f"FROM x\nWORKDIR /app\n{line}\n", files=files)
    assert placed(parsed.copies, files) == places
