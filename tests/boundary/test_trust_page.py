import re
from collections import Counter
from pathlib import Path

from tests.trust import page

REPOSITORY = Path(__file__).parents[2]


def test_every_test_that_a_lock_names_exists():
    missing = []
    for name in page.named_tests():
        file, _, function = name.partition("::")
        path = REPOSITORY / file
        if not path.is_file() or not re.search(rf"^ *(async )?def {function}\(", path.read_text(), re.MULTILINE):
            missing.append(name)
    assert missing == []


def test_a_lock_whose_tests_failed_or_did_not_run_is_shown_so():
    first = page.load_locks()[0]["tests"]
    table = page.locks_table({first[0]: Counter(passed=1, failed=2)})
    row = table.splitlines()[2]
    assert "2 failed" in row and "1 passed" in row and "not run" in table.splitlines()[3]


def test_the_page_that_is_kept_shows_every_lock_as_proven():
    shown = (REPOSITORY / "docs" / "trust.md").read_text()
    cells = [[cell.strip() for cell in line.split("|")] for line in shown.splitlines() if line.startswith("| ")]
    rows = {row[1]: row[4] for row in cells if len(row) == 6}
    assert {lock["name"] for lock in page.load_locks()} <= set(rows)
    for lock in page.load_locks():
        ended = rows[lock["name"]]
        assert re.fullmatch(r"\d+ passed", ended), f"{lock['name']}: {ended}"
