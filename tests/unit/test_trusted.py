"""What of a submission is carried into grading, what is left behind, and what voids a trial."""

import gzip
import io
import tarfile
import time

import pytest

from hc_ray.blind.grading import trusted
from hc_ray.blind.grading.contents import Refused, read_contents
from hc_ray.blind.grading.image import Image, Python, Session, differences
from hc_ray.blind.grading.test_dependencies import Mentions
from hc_ray.blind.grading.trusted import Carried, sort_out
from hc_ray.domain import filetree
from hc_ray.domain.candidate import DELETED
from tests.fakes.tars import make_tar, member

SITE, USER = "/usr/local/lib/python3.11/dist-packages", "/root/.local/lib/python3.11/site-packages"
DEBIAN = Image(
    workdir="/app",
    path=("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"),
    first=("/root/.local/bin",),
    programs={"python3": ("/usr/bin/python3", "/usr/bin/python3.11"), "sh": ("/usr/bin/sh", "/usr/bin/dash"),
              "ld": ("/usr/bin/ld", "/usr/bin/x86_64-linux-gnu-ld")},
    pytest="pure",
    pythons=(Python(
        path=("/usr/lib/python311.zip", "/usr/lib/python3.11", "/usr/lib/python3.11/lib-dynload", SITE),
        sites=(SITE, "/usr/lib/python3/dist-packages", "/usr/lib/python3.11/dist-packages"), user=(USER,),
        stdlib=("/usr/lib/python3.11", "/usr/lib/python3.11/lib-dynload"), ssl="/opt/conda/ssl",
        library=("argparse", "json", "netrc", "statistics"),
    ),),
    sessions=(Session(
        loaded={"argparse": ("/usr/lib/python3.11/argparse.py",), "json": ("/usr/lib/python3.11/json",),
                "pytest": ("/.hc/lib/pytest_pure/pytest",), "packaging": ("/.hc/lib/pytest_pure/packaging",),
                "helper": ("/usr/lib/python3/dist-packages/helper",), "sys": ()},
        imported={"requests": (f"{SITE}/requests",), "mine": ("/app/mine",), "csv": ("/usr/lib/python3.11/csv.py",)},
        tried=("org", "apport_python_hook"), missed=("simplejson",),
        mapped=("/usr/lib/x86_64-linux-gnu/libcrypto.so.3",),
    ),),
    libraries={"libc.so.6": ("/usr/lib/x86_64-linux-gnu/libc.so.6",)},
    loader=("/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib"),
    searched={"perl": ("/etc/perl", "/usr/local/share/perl/5.36.0", "/usr/share/perl5")},
)  # fmt: skip
SHELL = Mentions(shell_words=frozenset({"pytest", "uv", "nginx"}))


def sorted_out(tar: bytes, image: Image = DEBIAN, mentioned: Mentions = SHELL) -> Carried:
    return sort_out(tar, read_contents(tar), image, mentioned)


def fate(path: str, *, exists: bool = False, text: str = "x", workdir: str = "", image: Image = DEBIAN) -> str:
    image = image.model_copy(update={"exists": (path,) if exists else (), "workdir": workdir or image.workdir})
    found = sorted_out(make_tar({path: text}), image)
    kept = path in read_contents(found.tar).members
    assert kept is not (path in found.left_behind or path in found.tampered)
    return "tampered" if found.tampered else "left behind" if found.left_behind else "carried"


@pytest.mark.parametrize("tar", [
    b"no tar at all",
    make_tar({"/app/../etc/x": ""}),
    make_tar({}, member("app/x", tarfile.SYMTYPE, "/usr"), member("app/x/python3")),
    make_tar({}, member("app/x", tarfile.LNKTYPE, "usr/bin/python3")),
    make_tar({}, member("app/null", tarfile.CHRTYPE)),
    make_tar({DELETED: '{"a": 1}'}),
    make_tar({DELETED: "[" * 100_000}),
    pytest.param(gzip.compress(make_tar({"app/x": ""})), id="compressed"),
    make_tar({}, deleted=("/",)),
    make_tar({"/app/" + "d/" * 300 + "file": "x"}),
    make_tar({}, member("app/big", pax_headers={"GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "0",
                                                "GNU.sparse.map": "0,0"})),  # 1 TiB of hole
])  # fmt: skip
def test_a_submission_that_no_difference_looks_like_is_refused(tar):
    with pytest.raises(Refused):
        read_contents(tar)


def test_of_two_members_of_one_name_that_one_is_judged_and_carried_which_a_sandbox_writes():
    tar = make_tar({}, member("app/x", tarfile.SYMTYPE, "/tests"), member("app/x", data=b"1"))
    assert read_contents(tar).links == {}
    assert [(one.kind, one.data) for one in filetree.unpack(sorted_out(tar).tar).members] == [("file", b"1")]


@pytest.mark.parametrize("path", [
    "/usr/bin/python3", "/usr/bin/python3.11", "/usr/bin/dash", "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/python3.11/os.py", "/usr/lib/python3.11/json/decoder.py",
    "/usr/lib/python3/dist-packages/helper/__init__.py", f"{SITE}/requests/api.py",
])  # fmt: skip
def test_changing_or_removing_what_the_tests_resolve_voids_the_trial(path):
    assert fate(path, exists=True) == "tampered" and sorted_out(make_tar({}, deleted=(path,))).tampered == (path,)


@pytest.mark.parametrize(
    "path", ["/usr", "/usr/bin", "/usr/lib/python3.11", "/root/.local", "/usr/lib/x86_64-linux-gnu"]
)
def test_removing_or_replacing_a_folder_that_holds_something_trusted_voids_the_trial(path):
    assert sorted_out(make_tar({}, deleted=(path,))).tampered == (path,)
    link = make_tar({}, member(path[1:], tarfile.SYMTYPE, "/app/mine"))
    assert sorted_out(link, DEBIAN.model_copy(update={"exists": (path,), "folders": (path,)})).tampered == (path,)


@pytest.mark.parametrize("path", [
    "/usr/bin/vim", "/usr/share/doc/x/README", "/usr/lib/x86_64-linux-gnu/libjq.so.1", f"{SITE}/numpy/core.py",
    f"{USER}/numpy/__init__.py", "/root/.local/bin/tool", "/usr/local/bin/nginx", "/etc/nginx/nginx.conf",
    "/var/lib/dpkg/status", "/var/lib/dpkg/info/jq.list", "/etc/alternatives/editor", "/opt/tool/bin/python3",
    "/usr/lib/jvm/java-17/lib/libc.so.6", "/srv/sub/conftest.py", "/app/mine/__init__.py", "/app/argparse",
    "/app/statistics", "/app/netrc/items.txt", "/app/sub/statistics.py",
    "/app/json/answers.json",
    "/app/sys.py", "/app/tests/conftest.py", "/usr/lib/python3.11/dist-packages/late.py",
    f"{SITE}/numpy-2.dist-info/entry_points.txt", "/usr/share/perl5/JSON.pm", "/usr/local/sbin/bash5",
    f"{SITE}/packaging/version.py", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "/app/.venv/bin/activate",
    "/app/openssl.cnf", "/app/.venv/pyvenv.cfg", "/usr/local/share/perl/5.36.0/Foo.pm", "/root/.ssh/authorized_keys",
    "/root/.config/app.toml", "/tmp/report.txt", "/app/model.pth",
])  # fmt: skip
def test_what_an_honest_installation_brings_is_carried(path):
    assert fate(path) == "carried"


@pytest.mark.parametrize("path", ["/usr/bin/vim", f"{SITE}/numpy/core.py", "/var/lib/dpkg/status", "/app/mine/x.py"])
def test_an_upgrade_of_what_the_tests_do_not_resolve_is_carried(path):
    assert fate(path, exists=True) == "carried" and sorted_out(make_tar({}, deleted=(path,))).tampered == ()


def test_code_of_trusted_packages_and_what_a_script_sources_are_trusted_outside_the_working_directory():
    passes = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"
    assert fate(passes, exists=True, image=DEBIAN.model_copy(update={"owned": (passes,)})) == "tampered"
    image = DEBIAN.model_copy(update={"named": ("/root/.local/bin/env", "/srv/env.sh", "/app/.venv/bin/activate")})
    assert fate("/root/.local/bin/env", image=image) == fate("/srv/env.sh", image=image) == "left behind"
    assert fate("/srv/env.sh", exists=True, image=image) == "left behind"
    assert fate("/app/.venv/bin/activate", exists=True, image=image) == "carried"


@pytest.mark.parametrize("path", [
    "/usr/local/bin/python3", "/usr/local/sbin/sh", "/root/.local/bin/python3", f"{USER}/helper/__init__.py",
    f"{SITE}/helper.py", f"{USER}/requests.py", "/usr/local/lib/libc.so.6", "/usr/lib/libc.so.6",
    "/app/argparse.py", "/app/json/__init__.py", "/app/pytest/__init__.py", "/app/argparse.cpython-311.so",
    "/srv/lib/hc_witness.py", "/app/csv.py", "/app/requests.py", "/app/requests/__init__.py",
])  # fmt: skip
def test_shadowing_what_the_tests_resolve_voids_the_trial(path):
    assert fate(path) == "tampered"


def test_a_module_that_the_library_loads_late_is_left_behind_in_folders_of_pythonpath_too():
    (python,) = DEBIAN.pythons
    added = python.model_copy(update={"added": ("/app/src",), "path": ("/app/src", *python.path)})
    image = DEBIAN.model_copy(update={"pythons": (added,)})
    assert fate("/app/src/netrc.py", image=image) == "left behind"
    assert fate("/app/src/mine.py", image=image) == fate("/app/lib/netrc.py", image=image) == "carried"


def test_a_module_of_the_standard_library_is_the_candidate_s_to_write_where_a_test_names_its_file():
    pytests = "/app/argparse.py"
    for path, tampered in {"/app/csv.py": (), "/app/statistics.py": (), pytests: (pytests,)}.items():
        found = sorted_out(make_tar({path: "x"}), mentioned=Mentions(words=("csv.py", "statistics.py", "argparse.py")))
        assert found.tampered == tampered and not found.left_behind


@pytest.mark.parametrize("path", [
    # Start-up files and hooks
    "/etc/ld.so.preload", "/etc/ld.so.conf.d/x.conf", "/etc/profile.d/x.sh", "/etc/python3.11/sitecustomize.py",
    "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf", "/usr/share/git-core/templates/hooks/post-checkout",
    "/etc/gitconfig", "/etc/gdb/gdbinit", "/etc/perl/strict.pm", f"{SITE}/x.pth", f"{USER}/x.pth",
    "/app/.venv/lib/python3.11/site-packages/x.pth", "/opt/conda/ssl/openssl.cnf", "/usr/x86_64-linux-gnu/lib/specs",
    f"{SITE}/sitecustomize.py", f"{USER}/usercustomize.py", "/app/usercustomize/__init__.py",
    "/usr/bin/pyvenv.cfg", "/usr/bin/pybuilddir.txt", "/usr/bin/python311._pth", "/conftest.py", "/pytest.ini",
    "/usr/pip.conf", "/uv.toml", "/.python-version",
    "/root/.bashrc", "/root/.gitconfig", "/root/.config/pip/pip.conf", "/root/.config/git/config",
    "/home/someone/.profile", "/root/.sqliterc", "/root/.jq", "/root/.expect.rc", "/root/.config/sh/env",
    "/root/.config/shrc", "/usr/local/etc/npmrc", "/root/.cache/uv/wheels/x",
    "/root/.local/share/uv/python/bin/python3",
    # The interpreter's own library, and beside trusted modules
    "/usr/lib/python3.11/_json.so", "/usr/lib/python3.11/__pycache__/json.cpython-311.pyc",
    f"{SITE}/__pycache__/six.cpython-311.pyc", "/app/__pycache__/helper.cpython-311.pyc",
    "/usr/lib/python3.11/json/_speedups.so", "/usr/lib/python3.11/lib-dynload/_json.so", "/usr/lib/python311.zip",
    "/usr/lib/python3/dist-packages/helper/_extra.py", "/usr/lib/python3.11/distutils/__init__.py",
    # Modules that the library loads only once a function needs them
    "/app/netrc.py", "/app/statistics.cpython-311.so", "/app/netrc/__init__.py",
    # Names with a line end
    "/etc/profile.d/a\nb.sh", "/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.d/a\nb.conf", "/etc/apt/a\nb",
    # Modules that are looked for in vain
    "/app/org/python/core.py", f"{SITE}/org/__init__.py", f"{USER}/apport_python_hook.py", f"{SITE}/simplejson.py",
    # What the C library and OpenSSL load by name or prefer
    "/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libfoo.so.1", "/usr/lib/x86_64-linux-gnu/gconv/UTF.so",
    "/usr/lib/bfd-plugins/mine.so", "/usr/share/locale/C.UTF-8/LC_MESSAGES/coreutils.mo",
    "/usr/lib/x86_64-linux-gnu/libnss_evil.so.2", "/etc/nsswitch.conf", "/etc/pam.d/su", "/usr/lib/locale/C.utf8/X",
    "/usr/lib/x86_64-linux-gnu/security/pam_x.so", "/usr/lib/x86_64-linux-gnu/ossl-modules/legacy.so",
    "/usr/lib/x86_64-linux-gnu/haswell/libm.so.6", "/etc/ld.so.cache",
    # What package managers and compilers run or trust
    "/etc/apt/apt.conf.d/99x", "/var/cache/apt/archives/x.deb", "/var/lib/dpkg/info/jq.postinst",
    "/var/lib/dpkg/diversions", "/usr/lib/gcc/x86_64-linux-gnu/12/specs", "/usr/lib/gcc/x86_64-linux-gnu/12/ld",
    "/usr/lib/gcc/x86_64-linux-gnu/12/real-ld", "/usr/lib/gcc/x86_64-linux-gnu/12/collect-ld", "/etc/debconf.conf",
    # Programs that tests are started by, where the image has none
    "/usr/local/bin/pytest", "/usr/bin/uv", f"{SITE}/pytest/__init__.py", f"{USER}/_pytest/config.py",
    # Rewards and tests
    "/logs/verifier/reward.txt", "/tests/test.sh",
])  # fmt: skip
def test_what_would_join_a_session_unasked_is_left_behind(path):
    assert fate(path) == "left behind"


@pytest.mark.parametrize("path", [
    "/etc/ld.so.cache", "/etc/alternatives/awk", "/root/.bashrc", "/etc/pam.d/common-session", "/etc/nsswitch.conf",
    "/usr/lib/python3.11/__pycache__/os.cpython-311.pyc", f"{SITE}/__pycache__/six.cpython-311.pyc",
    "/var/lib/apt/lists/x", "/etc/ld.so.preload",
    "/etc/profile", "/etc/environment", "/etc/ld.so.conf", "/app/sitecustomize.py", "/.hc/bin/python3",
    "/conftest.py", "/etc/magic",
])  # fmt: skip
def test_what_installing_rewrites_stays_as_the_image_has_it_without_blame(path):
    assert fate(path, exists=True) == "left behind"
    removed = sorted_out(make_tar({}, deleted=(path,)))
    assert (removed.tampered, read_contents(removed.tar).deleted) == ((), ())


@pytest.mark.parametrize("group", ["pytest11", "requests.backends", "requests_plugins", "x]\n [ requests"])
@pytest.mark.parametrize("folder", [SITE, USER, "/app"])
def test_a_distribution_that_makes_a_module_of_the_tests_load_a_plugin_loses_its_entry_points_alone(folder, group):
    points = f"{folder}/forge-1.dist-info/entry_points.txt"
    other = make_tar({points: "[console_scripts]\nrequests = forge:main\n[requesting]\nforge = forge\n"})
    assert sorted_out(other).left_behind == ()
    tar = make_tar({points: f"[{group}]\nforge = forge\n", f"{folder}/forge.py": "",
                    f"{folder}/forge-1.dist-info/RECORD": ""})  # fmt: skip
    found = sorted_out(tar)
    assert (found.left_behind, found.tampered) == ((points,), ())
    assert sorted_out(make_tar({}, member(points[1:], tarfile.SYMTYPE, "/app/text"))).left_behind == (points,)
    long = make_tar({points: "#" * (1 << 20) + "\n[pytest11]\nforge = forge\n"})
    assert sorted_out(long).left_behind == (points,)


def test_a_path_and_a_working_directory_are_judged_by_where_they_really_lie():
    image = DEBIAN.model_copy(
        update={"canonical": {"/app/way/json.py": "/usr/lib/python3.11/json.py", "/bin/python3": "/usr/bin/python3"}}
    )
    assert fate("/app/way/json.py", image=image) == "left behind"
    assert fate("/bin/python3", image=image, exists=True) == "tampered"
    image = DEBIAN.model_copy(update={"workdir": "/data/app", "canonical": {"/app/json.py": "/data/app/json.py"}})
    assert fate("/app/json.py", image=image) == "tampered"


def test_where_the_tests_run_in_a_folder_that_a_link_moved_its_modules_are_judged_by_where_it_lies():
    evil, link = make_tar({"/srv/evil/pytest.py": ""}), member("app/src", tarfile.SYMTYPE, "/srv/evil")
    contents = read_contents(make_tar({"/srv/evil/pytest.py": "", "/srv/evil/add.py": ""}, link))
    image = DEBIAN.model_copy(update={"workdir": "/app", "modules_at": ("/app/src",)})
    moved = image.model_copy(update={"modules_at": ("/srv/evil",)})
    assert trusted.led_astray(contents, image, moved, SHELL) == ("/srv/evil/pytest.py",)
    moved = image.model_copy(update={"workdir": "/srv/evil"})
    assert trusted.led_astray(contents, image, moved, SHELL) == ("/srv/evil/pytest.py",)
    assert trusted.led_astray(contents, image, image, SHELL) == sorted_out(evil, image).tampered == ()


@pytest.mark.parametrize("path", [USER, "/root/.local", SITE, "/usr/local/sbin", "/usr/local/share/perl/5.36.0"])
def test_a_new_link_in_the_place_of_a_folder_that_is_searched_is_left_behind(path):
    assert sorted_out(make_tar({}, member(path[1:], tarfile.SYMTYPE, "/app/mine"))).left_behind == (path,)


def test_modes_of_the_image_s_folders_stay_and_nothing_carried_there_is_open_to_everybody():
    places = ("usr/bin", "opt/tool/lib", "root/.local/bin", "app/data", "opt/team")
    tar = make_tar({"/usr/local/bin/tool": "x", "/app/tool": "x"},
                   *(member(path, tarfile.DIRTYPE, mode=0o777) for path in places))  # fmt: skip
    there = ("/usr/bin", "/opt/tool/lib", "/opt/team")
    image = DEBIAN.model_copy(update={"exists": there, "folders": there, "grounds": ("/opt/tool/lib",)})
    found = sorted_out(tar, image)
    assert (found.left_behind, found.tampered) == (("/opt/tool/lib", "/usr/bin"), ())
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as archive:
        modes = {f"/{info.name}": info.mode for info in archive}
    assert modes == {"/usr/local/bin/tool": 0o755, "/app/tool": 0o777, "/root/.local/bin": 0o755, "/app/data": 0o777,
                     "/opt/team": 0o777}  # fmt: skip


def test_modes_of_homes_are_the_candidate_s_but_for_that_of_the_tests_and_none_is_opened_to_others():
    tar = make_tar({}, *(member(path, tarfile.DIRTYPE, mode=0o707) for path in ("home/bob", "root")))
    homes, first = ("/home/bob", "/root"), (*DEBIAN.first, "/home/bob/bin")
    image = DEBIAN.model_copy(update={"exists": homes, "folders": homes, "homes": homes, "first": first})
    found = sorted_out(tar, image)
    assert (found.left_behind, found.tampered) == (("/root",), ())
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as archive:
        assert [(info.name, info.mode) for info in archive] == [("home/bob", 0o705)]


PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"


@pytest.mark.parametrize(("path", "before", "after", "expected"), [
    ("/etc/passwd", PASSWD, PASSWD + "mysql:x:101:103::/var/lib/mysql:/bin/false\n", "carried"),
    *(("/etc/passwd", PASSWD, PASSWD + f"evil:x:{number}:0::/root:/bin/sh\n", "tampered")
      for number in ("0", "00", "²", "1" * 5000, 1 << 32)),
    ("/etc/passwd", PASSWD, PASSWD.rstrip() + "\fme:x:101:103::/:/bin/sh\n", "tampered"),
    ("/etc/passwd", PASSWD, PASSWD + "nobody:x:102:0::/root:/bin/sh\n", "tampered"),
    ("/etc/passwd", PASSWD, "mysql:x:101:103::/:/bin/false\n" + PASSWD, "tampered"),
    ("/etc/passwd", PASSWD, PASSWD.replace("nobody:x:65534", "nobody:x:0"), "tampered"),
    ("/etc/passwd", PASSWD, PASSWD.replace("/bin/bash", "/app/shell"), "tampered"),
    ("/etc/passwd", PASSWD, "", "tampered"),
    ("/etc/group", "sudo:x:27:\n", "sudo:x:27:me\nme:x:1000:\n", "carried"),
    ("/etc/group", "sudo:x:27:\n", "sudo:x:28:\n", "tampered"),
])  # fmt: skip
def test_accounts_may_be_added_and_nobody_becomes_somebody_else(path, before, after, expected):
    assert fate(path, exists=True, text=after, image=DEBIAN.model_copy(update={"accounts": {path: before}})) == expected


def test_everything_else_is_carried_with_its_removals_and_nothing_is_of_nothing():
    tar = make_tar({"/app/a.py": "1", "/etc/app.conf": "2", "/root/notes": "3"}, deleted=("/app/old", "/srv/x"))
    carried = sorted_out(tar)
    assert (carried.left_behind, carried.tampered, carried.reaches_out) == ((), (), True)
    kept = read_contents(carried.tar)
    assert kept.members == ("/app/a.py", "/etc/app.conf", "/root/notes") and kept.deleted == ("/app/old", "/srv/x")
    assert sorted_out(b"") == trusted.Carried(tar=b"")


def test_the_second_look_is_asked_for_only_where_something_lies_or_leads_outside_of_the_working_directory():
    assert not sorted_out(make_tar({"/app/a.py": "1", "/etc/profile.d/x": "left"})).reaches_out
    assert sorted_out(make_tar({}, member("app/src", tarfile.SYMTYPE, "evil"))).reaches_out
    assert sorted_out(make_tar({"/app/a.py": "1"}), DEBIAN.model_copy(update={"workdir": "/"})).reaches_out
    program, library = make_tar({"/usr/bin/jq": ""}), make_tar({"/usr/local/lib/libjq.so.1": ""})
    assert (sorted_out(program).reaches_out, sorted_out(program).libraries) == (True, False)
    assert sorted_out(library).libraries


@pytest.mark.parametrize(("path", "expected"), [
    ("/root/.bashrc", "left behind"), ("/root/a.py", "carried"), (f"{USER}/requests.py", "tampered"),
])  # fmt: skip
def test_a_home_as_working_directory_opens_no_hooks(path, expected):
    assert fate(path, workdir="/root") == expected


def test_an_untouched_image_resolves_like_itself_and_of_many_paths_a_verdict_counts_the_rest():
    found = sorted_out(make_tar({f"/logs/{number:03}": "" for number in range(300)}))
    assert len(found.left_behind) == 201 and found.left_behind[-1] == "and 100 more"
    grown = DEBIAN.model_copy(update={"programs": {**DEBIAN.programs, "jq": ("/usr/bin/jq",)}, "exists": ("/x",),
                                      "cached": {"libjq.so.1": ("/x",)}})  # fmt: skip
    assert differences(DEBIAN, DEBIAN) == differences(DEBIAN, grown) == ()
    (python,), (session,) = DEBIAN.pythons, DEBIAN.sessions
    venv = python.model_copy(update={"program": "/opt/venv/bin/python", "prefix": "/opt/venv"})
    more = DEBIAN.model_copy(update={"pythons": (venv, python), "sessions": (Session(), session)})
    assert differences(DEBIAN, more) == ()
    told = python.model_copy(update={"path": (*python.path, "/.hc/lib/hc")})
    assert differences(DEBIAN, DEBIAN.model_copy(update={"pythons": (told,)})) == ()


@pytest.mark.parametrize(("update", "named"), [
    ({"programs": {**DEBIAN.programs, "sh": ("/usr/local/bin/sh",)}}, "sh"),
    ({"libraries": {"libc.so.6": ("/usr/local/lib/libc.so.6", *DEBIAN.libraries["libc.so.6"])}}, "libc.so.6"),
    ({"pythons": (DEBIAN.pythons[0].model_copy(update={"prefix": "/app"}),)}, "the Pythons' prefix"),
    ({"pythons": (DEBIAN.pythons[0].model_copy(update={"path": ("/app",)}),)}, "the Pythons' path"),
    ({"pythons": ()}, "the Pythons' path"), ({"pytest": "own"}, "python3"), ({"sessions": ()}, "json"),
    ({"sessions": (DEBIAN.sessions[0].model_copy(update={"loaded": {"forge": ("/app/forge.py",)}}),)}, "forge"),
    ({"sessions": (DEBIAN.sessions[0].model_copy(update={"mapped": ("/app/evil.so",)}),)}, "/app/evil.so"),
])  # fmt: skip
def test_whatever_resolves_to_something_else_is_a_difference(update, named):
    assert named in differences(DEBIAN, DEBIAN.model_copy(update=update))


@pytest.mark.parametrize(("path", "words", "expected"), [
    ("/srv/db/.psqlrc", (), "left behind"), ("/srv/db/.psqlrc", ("psqlrc",), "carried"),
    ("/root/.sh", ("sh",), "left behind"), ("/srv/db/data/.x", (), "carried"), ("/srv/db/x", (), "carried"),
])  # fmt: skip
def test_what_a_program_could_read_in_a_home_is_left_behind_unless_a_test_names_it(path, words, expected):
    image = DEBIAN.model_copy(update={"homes": ("/srv/db",)})
    found = sorted_out(make_tar({path: "x"}), image, mentioned=Mentions(words=words))
    assert ("left behind" if found.left_behind == (path,) else "carried") == expected


@pytest.mark.parametrize(("path", "words", "expected"), [
    ("/.git/config", (), "left behind"), ("/.git", ("git",), "carried"), ("/.sh/x", ("sh",), "left behind"),
    ("/package.json", (), "left behind"), ("/package.json", ("package.json",), "carried"), ("/data/x", (), "carried"),
    ("/.mvn/jvm.config", ("mvn",), "carried"), ("/app/.git/config", (), "carried"),
    ("/csv/__init__.py", ("csv",), "left behind"), ("/csv/all.txt", (), "carried"),
    ("/org/python/core.py", ("org",), "left behind"),
])  # fmt: skip
def test_what_programs_could_find_right_above_the_tests_is_left_behind_unless_a_test_names_it(path, words, expected):
    found = sorted_out(make_tar({path: "x"}), mentioned=Mentions(words=words))
    assert ("left behind" if found.left_behind == (path,) else "carried") == expected
    if words not in (("csv",), ("org",)):
        assert fate(path, workdir="/") == "carried"


@pytest.mark.parametrize(("env", "more", "expected"), [
    ("/app/.venv", "pyvenv.cfg", "carried"), ("/opt/own", "pyvenv.cfg", "carried"),
    ("/opt/own", "other", "left behind"), ("/opt/py", "pyvenv.cfg", "left behind"),
    ("/home/u/.local", "pyvenv.cfg", "left behind"), ("/root/.local", "pyvenv.cfg", "left behind"),
])  # fmt: skip
def test_a_new_environment_keeps_the_pth_files_that_only_its_own_python_reads(env, more, expected):
    file = f"{env}/lib/python3.11/site-packages/__editable__.mine.pth"
    tar = make_tar({f"{env}/{more}": "", file: "/app/src"}, member(env[1:], tarfile.DIRTYPE))
    found = sorted_out(tar, DEBIAN.model_copy(update={"exists": ("/opt/py",), "folders": ("/opt/py",)}))
    assert ("left behind" if file in found.left_behind else "carried") == expected and not found.tampered


def test_what_modules_of_the_tests_look_for_in_vain_is_carried_where_a_test_names_it():
    tar = make_tar({f"{SITE}/simplejson.py": "x"})
    assert sorted_out(tar, mentioned=Mentions(words=("simplejson",))).left_behind == ()


def test_a_link_that_leads_astray_and_what_would_be_found_before_its_like_are_left_behind():
    link = make_tar({}, member("app/out", tarfile.SYMTYPE, "/tests/expected"))
    image = DEBIAN.model_copy(update={"astray": ("/app/out",)})
    for exists in ((), ("/app/out",)):
        assert sorted_out(link, image.model_copy(update={"exists": exists})).left_behind == ("/app/out",)
    module = "/usr/local/share/perl/5.36.0/strict.pm"
    assert fate(module, image=DEBIAN.model_copy(update={"hidden": (module,)})) == "left behind"


def test_settings_of_pytest_above_any_folder_that_tests_run_in_are_left_behind():
    image = DEBIAN.model_copy(update={"modules_at": ("/srv/work/deep", "/app/sub")})
    assert fate("/srv/work/conftest.py", image=image) == fate("/srv/pytest.ini", image=image) == "left behind"
    assert fate("/app/conftest.py", image=image) == "carried"


def test_links_to_long_numbers_take_no_time_to_read():
    links = [filetree.Member(f"/app/{number}", "link", target="1" * 4000) for number in range(300)]
    tar, began = filetree.pack(links, ["/app/gone"]).tar, time.thread_time()
    filetree.unpack(sorted_out(tar).tar)
    assert time.thread_time() - began < 2.0
