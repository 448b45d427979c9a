"""The code of a page of the documentation, laid out and run as its reader would."""

import re
from pathlib import Path

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of code, in the page's order."""
    return FENCED.findall(page.read_text(encoding="utf-8"))


def lay_out(page: Path, folder: Path) -> Path:
    """Writes the modules that a page shows (blocks that begin with a name), and all else as one script that does, in
    the page's order, what it says; answers the script."""
    script = ["import subprocess"]
    for language, text in blocks_of(page):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text)
        elif language == "python":
            script.append(text)
        elif language == "sh":
            script += [f"subprocess.run({line!r}, shell=True, check=True)" for line in text.splitlines()]
    path = folder / "page.py"
    path.write_text("\n".join(script))
    return path
