import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import venv
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hc_ray.blind.grading.image import Image
from hc_ray.domain.runner_paths import machinery_command
from hc_ray.sandboxes.inside.grading import byte_code, interpreters, libraries, named, packages, probe, shells
from hc_ray.sandboxes.inside.grading.toolchains import found_first
from hc_ray.sandboxes.runner_build import inside_modules
from tests.fakes.processes import program, ran


def installed(folder: Path) -> Path:
    """The scripts as they lie in a sandbox."""
    for name, module in inside_modules().items():
        (folder / f"hc_{name}.py").write_bytes(module)
    return folder / "hc_probe.py"


def order(**more: Any) -> dict[str, Any]:
    return {"paths": [], "workdir": "/app", "lib": "/lib-of-ours", "pure": "/nowhere", **more}


def answer(script: Path, given: dict[str, Any], env: dict[str, str]) -> Image:
    start = machinery_command("probe")[1:-1]
    done = ran(sys.executable, *start, script, input=json.dumps({**given, "nonce": "n"}), env=env, check=True)
    nonce, _, text = done.stdout.partition(" ")
    assert nonce == "n"
    return Image.model_validate_json(text)


def test_the_probe_says_what_the_image_holds_and_lends_it_the_witness(tmp_path):
    venv.create(tmp_path / "image", symlinks=True)
    search = [str(tmp_path / "image" / "bin"), "/usr/bin", "/bin"]
    env = {"PATH": ":".join([*search, "."]), "HOME": str(tmp_path)}
    given = order(paths=["/bin/sh", "/bin", "/absent"], words=["python3", "sh", "absent-program"])
    (tmp_path / "lib").mkdir()
    found = answer(installed(tmp_path / "lib"), given, env)
    assert found.exists == ("/bin/sh", "/bin") and (found.path[0], found.path[-1]) == (search[0], "/app")
    assert {"/root", "/etc/skel"} <= {*found.homes} and not {"/", "/nonexistent"} & {*found.homes}
    assert (found.bash, found.pytest, found.home) == (True, "pure", str(tmp_path))
    assert found.programs["python3"][0] == f"{search[0]}/python3"
    assert found.programs["python3"][-1] == os.path.realpath(sys.executable) and "absent-program" not in found.programs
    python = found.pythons[0]  # this machine's own start-up files may name others
    assert python.installed & set(python.order) and not python.closed & python.installed
    assert str(Path(json.__file__).parent.parent) in python.closed
    (lent,) = (tmp_path / "image").rglob("00_hc_witness.pth")
    assert lent.read_text().startswith("/lib-of-ours\nimport os, sys; sys.pycache_prefix = ")
    lent.unlink()  # who has lent it already has sealed the folder
    answer(tmp_path / "lib" / "hc_probe.py", {**given, "lent": True}, env)
    assert not lent.exists()


def test_a_session_names_what_it_loads_and_what_it_looks_for_in_vain():
    env = {"PYTHONPATH": str(Path(pytest.__file__).parent.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    found = interpreters.session(sys.executable, env, ["sqlite3", "absent_module"])
    assert found is not None and found["loaded"]["argparse"] == [__import__("argparse").__file__]
    assert found["loaded"]["pytest"] == [str(Path(pytest.__file__).parent)] and found["loaded"]["sys"] == []
    assert "sqlite3" in found["imported"]
    assert "msvcrt" in found["tried"], "subprocess looks for a module of Windows'"
    assert not {"absent_module", "test_probe"} & {*found["tried"], *found["loaded"]}
    assert any("/libc" in file for file in found["mapped"])


def test_the_byte_code_of_a_session_spares_a_later_one_to_compile_as_long_as_a_module_is_as_it_was(tmp_path):
    module = tmp_path / "lies" / "one.py"
    module.parent.mkdir()
    module.write_text("print('one')\n")
    environment = {"PYTHONPATH": str(module.parent)}
    found = interpreters.session(sys.executable, environment, ["one"], [str(module.parent)])
    assert found is not None and not (module.parent / "__pycache__").exists()
    byte_code.unpack(found["byte_code"], str(tmp_path / "kept"))
    (kept,) = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    asks = [sys.executable, "-v", "-c", "import one"]
    env = {"PYTHONPATH": str(module.parent), "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")}
    done = ran(*asks, env=env)
    assert done.stdout == "one\n" and f"# {kept} matches {module}" in done.stderr
    module.write_text("print('another')\n")
    assert ran(*asks, env=env).stdout == "another\n"


def test_a_session_of_a_python_without_pytest_is_one_of_unittest(tmp_path):
    venv.create(tmp_path, symlinks=True)
    found = interpreters.session(str(tmp_path / "bin" / "python3"), {"PYTHONPATH": ""}, [])
    assert found is not None and {"unittest", "argparse"} <= {*found["loaded"]} and "pytest" not in found["loaded"]


@pytest.mark.parametrize(("links", "astray"), [
    ({"/app/a": "/tests/x", "/app/b": "../logs", "/app/c": "/proc/self/cwd/x", "/app/d": "/dev/null"}, "abcd"),
    ({"/app/a": "b", "/app/b": "/", "/app/c": "b/tests/x", "/app/d": "b/app/x"}, "c"),
    ({"/app/a": "x", "/app/b": "/srv/testsuite", "/app/c": "c", "/app/d": "/tmp/tests/x"}, ""),
])  # fmt: skip
def test_links_that_lead_to_tests_logs_processes_or_devices_are_named_also_by_way_of_others(links, astray):
    found = probe._astray(order(paths=[*links, "/app/x"], links=links), {})
    assert [path[-1] for path in found] == list(astray)


@pytest.mark.parametrize("name", ["first/sys/types.h.gch", "last/sys/types.h.gch", "last/sys/types.h.gch/any"])
def test_a_precompiled_header_is_found_before_the_header_that_it_lies_beside(tmp_path, name):
    (tmp_path / "last" / "sys").mkdir(parents=True)
    (tmp_path / "last" / "sys" / "types.h").touch()
    orders = {"headers": [f"{tmp_path}/first", f"{tmp_path}/last"], "perl": []}
    assert found_first(f"{tmp_path}/{name}", orders) == [f"{tmp_path}/last/sys/types.h"]
    assert found_first(f"{tmp_path}/{name}".replace("types", "other"), orders) == []


def test_whatever_a_folder_of_precompiled_headers_calls_its_files_they_are_found_first(tmp_path):
    (tmp_path / "stdio.h").touch()
    orders = {"headers": [str(tmp_path)]}
    assert found_first(f"{tmp_path}/stdio.h.gch/a\nb", orders) == [f"{tmp_path}/stdio.h"]


@pytest.mark.parametrize(("way", "env"), [
    ("venv/bin/activate", "venv"), ("conda/bin/activate", "conda/envs/testbed"),
    ("conda/bin/activate", "conda/envs/other"),
])  # fmt: skip
def test_the_python_of_an_environment_that_a_script_enters_is_one_of_the_tests(tmp_path, way, env):
    venv.create(tmp_path / env, symlinks=True)
    (tmp_path / "conda" / "bin").mkdir(parents=True, exist_ok=True)
    (tmp_path / "lib").mkdir()
    given = order(words=["python3", "testbed"], search=[str((tmp_path / way).parent)], lent=True)
    found = answer(installed(tmp_path / "lib"), given, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    prefixes = {python.prefix for python in found.pythons}
    assert (str(tmp_path / env) in prefixes) == (env != "conda/envs/other"), prefixes
    assert (f"{tmp_path / env}/bin" in found.first) == (env != "conda/envs/other")


@pytest.mark.parametrize("name", ["python", "python3.11"])
def test_a_python_is_one_of_the_tests_though_no_python3_is_on_the_path(tmp_path, name):
    venv.create(tmp_path / "opt", symlinks=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "opt" / "bin" / "python3.11").unlink(missing_ok=True)
    (tmp_path / "opt" / "bin" / name).unlink(missing_ok=True)
    (tmp_path / "opt" / "bin" / name).symlink_to(sys.executable)
    given = order(words=["python3", f"{tmp_path}/opt/bin/{name}"], session=True, imports=["sqlite3"], lent=True)
    found = answer(installed(tmp_path / "lib"), given, {"PATH": "/nowhere", "HOME": str(tmp_path)})
    number = [python.prefix for python in found.pythons].index(str(tmp_path / "opt"))
    assert "sqlite3" in found.sessions[number].imported and found.pytest == "none"


def test_what_start_up_files_read_is_followed_and_what_they_put_on_the_path_is_looked_in(tmp_path):
    home, other = tmp_path / "home", tmp_path / "other"
    for path, text in {
        home / ".profile": f'if [ -d "$HOME/bin" ] ; then\n    PATH="$HOME/bin:$PATH"\nfi\n. {tmp_path}/deep.sh\n',
        home
        / ".bashrc": '. "$GIVEN/x"\nexport NVM_DIR="$HOME/.nvm"\n[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"\n',
        home / ".nvm/nvm.sh": f"source ~/absent.sh\nPATH=$NVM_DIR/bin:{tmp_path}/tools:$PATH\n",
        tmp_path / "deep.sh": f"source {tmp_path}/deep.sh\n",
        other / ".profile": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.mkfifo(other / ".bashrc")
    files, folders = shells.reads([str(home), str(other)])
    ours = {file for file in files if file.startswith(str(tmp_path))}
    assert ours == {f"{tmp_path}/deep.sh", f"{home}/.nvm/nvm.sh", f"{home}/absent.sh"}
    assert {f"{home}/bin", f"{tmp_path}/tools"} <= {*folders} and not any("$" in folder for folder in folders)
    assert f"{other}/bin" not in folders
    (tmp_path / "lib").mkdir()
    given = order(words=["cat"], sourced=[f"{tmp_path}/script.sh"])
    (tmp_path / "script.sh").write_text(f". {tmp_path}/more.sh\n")
    found = answer(installed(tmp_path / "lib"), given, {"PATH": "/usr/bin:/bin", "HOME": str(home)})
    assert {f"{home}/.nvm/nvm.sh", f"{tmp_path}/script.sh", f"{tmp_path}/more.sh"} <= {*found.named}
    assert f"{home}/bin" in found.first and "/usr/bin" not in found.first


def test_links_that_lead_round_and_round_are_looked_at_for_seconds_only(monkeypatch):
    """As many as a submission may hold kept a verifier busy for hours: each leads through forty others."""
    monkeypatch.setattr(probe, "_STEPS", 10_000)
    links = {f"/app/{n}": "x/../" * 50 + f"{n + 1}" for n in range(38)} | {f"/app/l{n}": "0" for n in range(10_000)}
    begun = time.monotonic()
    astray = probe._astray({"links": links, "paths": [*links]}, {})
    assert time.monotonic() - begun < 1 and len(astray) > 9_000
    assert probe._astray({"links": {"/app/a": "b", "/app/c": "/tests/x"}, "paths": ["/app/a", "/app/c"]}, {}) == [
        "/app/c"
    ]


def test_the_probe_names_what_a_compiler_would_link_before_its_like(tmp_path):
    first, last, cc = tmp_path / "gcc/12", tmp_path / "lib", tmp_path / "bin/cc"
    for folder in (first, last, cc.parent):
        folder.mkdir(parents=True)
    (last / "libc.so").touch()
    program(cc, f"echo 'install: /x'; echo 'libraries: ={first}/:{first}/../../lib'")
    given = order(paths=[f"{first}/libc.so", f"{first}/libm.so"], words=["cc"])
    (tmp_path / "runner").mkdir()
    found = answer(installed(tmp_path / "runner"), given, {"PATH": f"{cc.parent}:/usr/bin:/bin", "HOME": str(tmp_path)})
    assert found.hidden == (f"{first}/libc.so",)


def test_once_a_submission_is_in_no_program_runs_that_the_image_lacks_and_no_module_from_where_the_probe_works(
    tmp_path,
):
    ran_by_it, env = tmp_path / "ran", {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    (tmp_path / "runner").mkdir()
    script = installed(tmp_path / "runner")
    before = answer(script, order(words=["sh", "ldconfig"]), env)
    for name in ("cc", "perl", "python3.99", "python3"):
        program(tmp_path / name, f"touch {ran_by_it}")
    words = ["sh", "cc", "perl", "python3.99", "python3"]
    given = order(words=words, session=True, imports=None, deep=True, ours=before.programs, ldconfig="")
    after = answer(script, given, env)
    assert not ran_by_it.exists() and (after.pythons, after.pytest) == ((), "none")
    assert answer(script, order(words=words, lent=True), env) and ran_by_it.exists(), (
        "an untouched image's programs are run"
    )


def test_a_python_that_is_asked_what_it_is_loads_nothing_from_where_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreters.subprocess, "run", partial(_run_in, tmp_path, subprocess.run))
    for name in ("json", "site", "importlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('loaded')\n")
    assert interpreters.facts(sys.executable, {}, "/nowhere") is not None
    assert interpreters.session(sys.executable, {}, []) is not None


def test_a_session_obeys_no_settings_of_pytest_in_a_folder_above_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text("import os\nos._exit(1)\n")
    env = {"PYTHONPATH": str(Path(pytest.__file__).parent.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    assert interpreters.session(sys.executable, env, []) is not None


def _run_in(folder: Path, run: Any, command: list[str], **options: Any) -> Any:
    return run(command, **{**options, "cwd": folder})


def test_what_the_tests_modules_look_for_in_vain_is_told_apart_and_modules_of_packages_are_imported(tmp_path):
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "__init__.py").touch()
    (tmp_path / "helper.py").touch()
    (tmp_path / "outer" / "sub.py").write_text(
        "import helper\ntry:\n    import speedups\nexcept ImportError:\n    pass\n"
    )
    found = interpreters.session(sys.executable, {"PYTHONPATH": str(tmp_path)}, ["outer.sub", "outer.sub.helper"])
    assert found is not None and found["imported"]["helper"] == [f"{tmp_path}/helper.py"]
    assert "speedups" in found["missed"] and "speedups" not in found["tried"]


def test_a_python_that_is_none_says_nothing_and_every_link_on_the_way_to_a_program_is_named(tmp_path):
    fake = program(tmp_path / "python3", "echo '[1]'")
    assert interpreters.facts(str(fake), {}, "") is None
    assert interpreters.session(str(tmp_path / "absent"), {}, []) is None
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "tool-1").write_text("x")
    (tmp_path / "real" / "tool").symlink_to("tool-1")
    (tmp_path / "bin").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    ways = [str(tmp_path / name) for name in ("bin", "real/tool", "real/tool-1")]
    assert [step for step in named.steps(f"{tmp_path}/bin/tool") if step.startswith(str(tmp_path))] == ways
    assert list(named.steps(f"{tmp_path}/loop"))[-1] == f"{tmp_path}/loop"


def test_libraries_are_found_without_running_a_program_and_whatever_the_order_of_programs():
    folders = libraries.search_folders()
    programs = sorted(map(str, Path("/usr/bin").iterdir()))[:300]
    told = libraries.closure(programs, folders)
    for seed in range(3):
        assert libraries.closure(random.Random(seed).sample(programs, len(programs)), folders) == told
    assert all(len(files) == len(set(files)) for files in told[0].values())
    folders = libraries.search_folders(["/opt/first", "/app/relative"])
    found, loaders = libraries.closure(["/bin/sh"], folders)
    assert folders[:2] == ["/opt/first", "/app/relative"]
    (libc,) = [name for name in found if name.startswith("libc.")]
    assert Path(found[libc][0]).is_file() and Path(loaders[0]).is_file()
    listed = libraries.cached(["libc.so.6"])
    assert all(Path(path).name == "libc.so.6" for path in listed.get("libc.so.6", []))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 58, b"\x7fELF\x01\x01" + b"\0" * 58,
        b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q14xHH6x", 1 << 62, 56, 65535),
    ],
    ids=["empty", "short", "ones", "32-bit", "far away"],
)  # fmt: skip
def test_broken_programs_load_nothing(data, tmp_path):
    (tmp_path / "x").write_bytes(data)
    found = libraries.read_elf(str(tmp_path / "x"))
    assert found is None or found.needed == ()
    os.mkfifo(tmp_path / "fifo")
    assert libraries.read_elf(str(tmp_path / "fifo")) is None


def test_code_of_a_program_s_packages_is_told_from_that_of_others(tmp_path, monkeypatch):
    (tmp_path / "info").mkdir()
    owned = {
        "gcc-12": "/usr/bin/x-gcc\n/usr/share/doc/gcc", "cpp-12:amd64": "/usr/lib/gcc/x/12/cc1",
        "perl-base": "/usr/share/perl5/Git.pm\n/usr/share/go-1/src/testing.go\n/usr/share/nginx/index.html",
        "vim": "/bin/vim", "libc6": "/lib/x/libc.so.6",
    }  # fmt: skip
    for name, text in owned.items():
        (tmp_path / "info" / f"{name}.list").write_text(text + "\n")
    (tmp_path / "status").write_text(
        "Package: gcc-12\nDepends: cpp-12 (= 12.2), x | libc6:any (>= 2)\n\nPackage: cpp-12\nPre-Depends: perl-base\n"
    )
    monkeypatch.setattr(packages, "_DATABASE", tmp_path)
    expected = ["/usr/lib/gcc/x/12/cc1", "/usr/share/perl5/Git.pm", "/usr/share/go-1/src/testing.go",
                "/usr/lib/x/libc.so.6"]  # fmt: skip
    changed = [*expected[:3], "/usr/bin/vim", expected[3], "/usr/share/doc/gcc", "/usr/share/nginx/index.html"]
    assert packages.code_of(changed, ["/usr/bin/x-gcc"]) == expected
    monkeypatch.setattr(packages, "_DATABASE", tmp_path / "absent")
    unknown = ["/usr/bin/vim", "/usr/local/lib/python3.11/site-packages/a.py", "/etc/x"]
    assert packages.code_of(unknown, []) == ["/usr/bin/vim"]


def test_what_a_program_without_a_package_stands_on_lies_in_a_folder_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "git.list").write_text("/usr/lib/git/helper\n")
    monkeypatch.setattr(packages, "_DATABASE", tmp_path)
    at = str(tmp_path)
    for part in ("go/src", "go/conf", "go/lib64", "npm/lib", "tsc/lib", "python3/lib", "jdk/x/bin", "jdk/x/lib",
                 "conda/bin/python3", "conda/lib", "served/bin", "served/lib", ".local/bin", ".local/lib",
                 "dotnet/sdk"):  # fmt: skip
        (tmp_path / part).mkdir(parents=True)
    for name in ("jdk/x/bin/java", "conda/bin/jq", ".local/bin/rg"):
        (tmp_path / name).write_bytes(b"\x7fELF")
    programs = {
        "serve": [f"{at}/served/bin/serve"], "go": ["/usr/bin/go", f"{at}/go/bin/go"],
        "npm": ["/usr/local/bin/npm", f"{at}/npm/bin/cli.js"],
        "java": ["/usr/bin/java", f"{at}/jdk/x/bin/java"], "jq": [f"{at}/conda/bin/jq"], "rg": [f"{at}/.local/bin/rg"],
        "dotnet": [f"{at}/dotnet/dotnet"], "gcc-12": ["/usr/local/bin/gcc-12"],
        "git": ["/usr/bin/git"], "python3": [f"{at}/python3/bin/python3"],
    }  # fmt: skip
    parts = ("dotnet/sdk", "go/lib64", "go/src", "jdk/x/bin", "jdk/x/lib", "npm/lib")
    assert named.grounds(programs) == [f"{at}/{part}" for part in parts]
    its = [f"{at}/go/src/testing/testing.go", f"{at}/npm/lib/cli.js", "/usr/local/libexec/gcc/x/12/cc1"]
    others = ["/usr/lib/git/helper", f"{at}/tsc/lib/cli.js", f"{at}/python3/lib/x", "/etc/git/config",
              f"{at}/go/conf/x"]  # fmt: skip
    assert packages.beside([*its, *others], programs) == its
