"""Hidden tests of makefile-from-scratch."""

import hashlib
import os

from box import Box
from child import WORKDIR, as_child

OBJECTS = {"main", "station", "text", "tide"}


def checkout():
    """The project's own files with the Makefile, and nothing that was built before."""
    box = Box()
    if (box.folder / "build").exists():
        box.run(["rm", "-rf", "build"])
    box.clock = 1700000000
    old(box)
    return box


def make(box, *arguments, code=0):
    done = box.run(["make", *arguments], timeout=90)
    assert done.code == code, done
    old(box)
    return done


@as_child()
def old(box):
    """Files get times long ago, in the order of their true times: seconds must not hide what is newer."""
    paths = [path for path in box.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    times = sorted({path.stat().st_mtime_ns for path in paths})
    box.clock += 1000
    at = {time: box.clock * 10**9 + k * 10**7 for k, time in enumerate(times)}
    for path in paths:
        os.utime(path, ns=(at[path.stat().st_mtime_ns],) * 2)
    box.stamps = {path: path.stat().st_mtime_ns for path in paths}


def made(box, *arguments):
    """What a make writes of objects and programs: their names."""
    box.stamps = {path: path.stat().st_mtime_ns for path in (box.folder / "build").iterdir()}
    before = dict(box.stamps)
    done = box.run(["make", *arguments], timeout=90)
    assert done.code == 0, done
    after = {path: path.stat().st_mtime_ns for path in (box.folder / "build").iterdir()}
    new = {path.name for path in after if after[path] != before.get(path)}
    old(box)
    return {name.removesuffix(".o") if name.endswith(".o") else name for name in new if name.endswith(".o") or name in ("tidecalc", "selftest")}


def edit(box, name, text=None):
    data = box.text(name) if text is None else text
    box.put(name, data + ("\n" if text is None else ""))


def test_a_fresh_build_and_what_it_makes():
    with checkout() as box:
        before = set(box.tree())
        make(box)
        assert box.run(["build/tidecalc", "-V"]).out == "tidecalc 2.7.1\n"
        assert box.run(["build/tidecalc", "-l"]).out == "Husum\nCuxhaven\nEmden\n"
        assert box.run(["build/tidecalc", "-u", "foot", "emden", "3"]).out.endswith(" foot\n")
        assert {name for name in box.tree() if not name.startswith("build")} == before
        assert {f"{name}.o" for name in OBJECTS} <= set(box.tree("build"))
        assert box.text("build/version.h") == '#define TIDECALC_VERSION "2.7.1"\n'
        assert box.text("build/units.h") == box.run(["sh", "tools/gen-units.sh", "units.def"]).out
        assert make(box, "-q").code == 0
        assert made(box) == set()


def test_the_sources_are_as_they_were():
    lines = []
    for path in sorted(WORKDIR.rglob("*")):
        name = path.relative_to(WORKDIR).as_posix()
        if path.is_file() and name != "Makefile" and not name.startswith("build/"):
            lines.append(name + " " + hashlib.sha256(path.read_bytes()).hexdigest())
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == "e32c99aed963d1484ec09ed89077a38676bb42b1420fdd79d436f0392653b10c"
    with checkout() as box:
        make(box)
        make(box, "selftest")
        make(box, "clean")
        for path in sorted(WORKDIR.rglob("*")):
            name = path.relative_to(WORKDIR)
            if path.is_file() and not name.as_posix().startswith("build/"):
                assert box.bytes(name) == path.read_bytes()


def test_a_parallel_build_and_the_selftest():
    with checkout() as box:
        make(box, "-j4")
        assert box.run(["build/tidecalc", "-V"]).code == 0
    with checkout() as box:
        done = make(box, "-j4", "selftest")
        assert "selftest: ok" in done.out and "tidecalc" not in box.tree("build")
        edit(box, "units.def", "metre 1.0\nfathom 2\n")
        assert box.run(["make", "selftest"], timeout=90).code != 0
        assert box.run(["make"], timeout=90).code == 0


def test_only_what_uses_a_file_is_compiled():
    with checkout() as box:
        make(box)
        cases = [("src/text.c", {"text"}), ("include/text.h", {"station", "text", "tide"}), ("include/station.h", {"main", "station", "tide"}), ("include/tide.h", {"main", "tide"})]
        for name, wanted in cases:
            edit(box, name)
            assert made(box) == wanted | {"tidecalc"}, name
        edit(box, "src/selftest.c")
        assert made(box) == set()
        make(box, "selftest")
        edit(box, "src/main.c")
        assert made(box, "selftest") == set()
        assert made(box) == {"main", "tidecalc"}


def test_new_sources_and_newly_used_headers():
    with checkout() as box:
        make(box)
        edit(box, "include/extra.h", "#define EXTRA 1\n")
        assert made(box) == set()
        edit(box, "src/extra.c", '#include "extra.h"\nint extra(void) { return EXTRA; }\n')
        assert made(box) == {"extra", "tidecalc"}
        box.put("src/text.c", '#include "extra.h"\n' + box.text("src/text.c"))
        assert made(box) == {"text", "tidecalc"}
        edit(box, "include/extra.h")
        assert made(box) == {"extra", "text", "tidecalc"}


def test_a_deleted_header_does_not_break_the_build():
    with checkout() as box:
        edit(box, "include/gone.h", "")
        box.put("src/text.c", '#include "gone.h"\n' + box.text("src/text.c"))
        make(box)
        with as_child():
            (box.folder / "include/gone.h").unlink()
        box.put("src/text.c", box.text("src/text.c").replace('#include "gone.h"\n', ""))
        assert made(box) == {"text", "tidecalc"}
        make(box, "-q")


def test_generated_headers():
    with checkout() as box:
        make(box)
        edit(box, "units.def", box.text("units.def") + "# a comment\n")
        assert made(box) == set()
        make(box, "-q")
        edit(box, "units.def", box.text("units.def") + "yard 0.9144\n")
        assert made(box) == {"tide", "tidecalc"}
        assert box.run(["build/tidecalc", "-u", "yard", "Husum", "0"]).code == 0
        edit(box, "tools/gen-units.sh", box.text("tools/gen-units.sh").replace("generated,", "generated by gen-units.sh,"))
        assert made(box) == {"tide", "tidecalc"}
        edit(box, "VERSION", "2.7.1")
        assert made(box) == set()
        make(box, "-q")
        edit(box, "VERSION", "2.8 beta/3\n")
        assert made(box) == {"main", "tidecalc"}
        assert box.run(["build/tidecalc", "-V"]).out == "tidecalc 2.8 beta/3\n"


def test_a_failing_generator():
    with checkout() as box:
        good = box.text("units.def")
        edit(box, "units.def", "metre 1.0\nfoot\n")
        for _ in range(2):
            assert box.run(["make"], timeout=90).code != 0
            old(box)
        assert box.bytes("build/tidecalc") is None
        edit(box, "units.def", good)
        make(box)
        edit(box, "units.def", good + "broken\n")
        for _ in range(2):
            assert box.run(["make"], timeout=90).code != 0
            old(box)
        edit(box, "units.def", good + "yard 0.9144\n")
        assert made(box) == {"tide", "tidecalc"}


def test_flags():
    with checkout() as box:
        make(box, "CFLAGS=-O0 -g -DNOTHING", "LDFLAGS=-Wl,--build-id=none")
        assert box.run(["build/tidecalc", "-V"]).code == 0
        assert made(box, "CFLAGS=-O0 -g -DNOTHING") == set()
        assert made(box, "CFLAGS=-O2") == OBJECTS | {"tidecalc"}
        assert made(box, "CFLAGS=-O2") == set()
        assert made(box) == OBJECTS | {"tidecalc"}
        assert made(box, "CFLAGS=-O1 -Wall") == set()
        box.put("mycc", "#!/bin/sh\necho \"$*\" >> calls.txt\nexec gcc \"$@\"\n")
        with as_child():
            (box.folder / "mycc").chmod(0o755)
        assert made(box, "CC=./mycc") == OBJECTS | {"tidecalc"}
        calls = box.text("calls.txt").splitlines()
        assert len(calls) >= 5 and sum("-O1" in call and "-Wall" in call for call in calls) >= 4


def test_clean():
    with checkout() as box:
        before = {name for name in box.tree() if not name.startswith("build")}
        make(box, "clean")
        make(box)
        box.put("src/mine.o", "mine")
        box.put("tidecalc", "mine")
        make(box, "clean")
        assert set(box.tree()) == before | {"src/mine.o", "tidecalc"}
        make(box, "clean")
        for name in ("clean", "selftest", "all"):
            box.put(name, "")
        make(box, "selftest")
        assert box.bytes("build/selftest")
        make(box, "clean")
        assert "build" not in box.tree()
        box.put("units.def", "broken\n")
        make(box, "clean")
        assert "build" not in box.tree()
