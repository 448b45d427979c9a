"""What the text of tests names: programs, sourced files, search paths, imports."""

from hc_ray.blind.grading.test_dependencies import BASE, WORDS, mentions

SH = b"""#!/bin/bash
# installs nothing
source $HOME/.local/bin/env
. /app/.venv/bin/activate && export PATH="/opt/tool/bin:$PATH"
export PYTHONPATH=/app/src:$PYTHONPATH
cd /srv/work
if ! command -v nginx; then uvx -p 3.13 -w pytest pytest /tests/test_outputs.py; fi
python3 -m coverage run /usr/local/bin/check.sh
python3 -c 'import yaml; from lxml import etree' && python3 - <<END
import tomli
END
"""
PY = b"""import json, os.path as p
from requests.adapters import HTTPAdapter
import child
def test():
    import sqlite3
    subprocess.run(["jq", "-r", "."]); subprocess.run([sys.executable, "-m", "build"])
"""
TESTS = {"test_outputs.py": (PY, False), "test.sh": (SH, True), "child.py": (b"", False), "data.bin": (b"\0vim", False)}


def test_words_scripts_search_paths_and_imports_are_found():
    found = mentions(TESTS)
    assert {"nginx", "uvx", "pytest", "jq", "/usr/local/bin/check.sh", *BASE} <= set(found.words)
    assert "vim" not in found.words and {"nginx", "uvx", "pytest"} <= found.shell_words
    assert "jq" not in found.shell_words
    assert found.sourced == ("$HOME/.local/bin/env", "/app/.venv/bin/activate")
    assert found.search == ("/opt/tool/bin", "/app/.venv/bin") and found.modules_at == ("/app/src", "/srv/work")
    assert mentions(TESTS).imports == (
        "yaml", "lxml", "lxml.etree", "tomli", "coverage", "json", "os.path", "requests.adapters",
        "requests.adapters.HTTPAdapter", "sqlite3", "build",
    )  # fmt: skip


def test_the_words_of_test_sh_count_first_and_their_number_is_bounded():
    flood = b" ".join(b"a%d" % number for number in range(2 * WORDS))
    found = mentions({"a.txt": (flood, False), "test.sh": (b"nginx -t\n", True)})
    assert len(found.words) == WORDS and "nginx" in found.words


def test_names_in_small_files_count_before_those_in_large_ones_which_are_data():
    flood = b" ".join(b"a%d" % number for number in range(2 * WORDS))
    found = mentions({"cases.txt": (flood, False), "test_outputs.py": (b"run('jq')\n", False)})
    assert "jq" in found.words


def test_what_a_script_makes_of_the_loader_s_path_is_told_where_it_holds_for_all_that_follows():
    script = b'LD_LIBRARY_PATH=/app/a ./it\nexport LD_LIBRARY_PATH="/app/b:$LD_LIBRARY_PATH"\n'
    assert mentions({"test.sh": (script, True)}).libraries_at == ("/app/b:$LD_LIBRARY_PATH",)
