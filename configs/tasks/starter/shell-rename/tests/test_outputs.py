"""Hidden tests of shell-rename."""

from child import shell


def ran(**files):
    done = shell("rename.sh", files={name.replace("__", " ").replace("_", "."): text for name, text in files.items()})
    assert done.code == 0
    return done.out.strip(), {name: text for name, text in done.files.items() if name != "rename.sh"}


def test_files_get_the_new_ending():
    assert ran(a_txt="1", b_txt="2") == ("", {"a.md": "1", "b.md": "2"})


def test_other_files_stay():
    assert ran(a_txt="1", b_csv="2", txt="3") == ("", {"a.md": "1", "b.csv": "2", "txt": "3"})


def test_no_file_at_all():
    assert ran() == ("", {})


def test_a_name_with_a_space():
    assert ran(my__notes_txt="n") == ("", {"my notes.md": "n"})


def test_only_the_last_ending_changes():
    assert ran(a_txt_txt="1") == ("", {"a.txt.md": "1"})


def test_a_taken_name_is_skipped_and_named():
    assert ran(a_txt="new", a_md="old", b_txt="2") == ("skipped a.txt", {"a.txt": "new", "a.md": "old", "b.md": "2"})
