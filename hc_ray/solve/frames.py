"""The Python that surrounds an answer in a frame (``framed``): how inputs are read, and values written. Text, since it
travels with the answer; it needs Python 3.8 and its standard library."""

IMPORTS = "import collections\nimport csv\nimport io\nimport json\nimport math\nimport os\nimport re\nimport sys\n"

NUMBERS = """
class _Written:
    # A number that is written as it was read, and is text where text is asked for: small models take it for either.
    def __str__(self):
        return self.text

    __repr__ = __str__

    def __getattr__(self, name):
        if name.startswith("__") or name in ("text", "number"):  # not yet there while it is copied
            raise AttributeError(name)
        return getattr(str(self), name)

    def __radd__(self, other):
        return other + str(self) if isinstance(other, str) else other + self.number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return str(self) == other if isinstance(other, str) else self.number == other


def _number(text):
    kind = int if re.fullmatch("-?(0|[1-9][0-9]*)", text) else float
    made = type("_Number", (_Written, kind), {})(text)
    made.text, made.number = text, kind(text)
    return made
"""

TYPED = """
def _typed(column):
    # A column of numbers is one of numbers.
    known = [text.strip() for text in column if text and text.strip()]
    if not known or not all(re.fullmatch("[+-]?[0-9]*[.]?[0-9]+", text) for text in known):
        return column
    if any(re.fullmatch("[+-]?0[0-9]+", text) for text in known):
        return column
    return [_number(text.strip()) if text and text.strip() else "" for text in column]
"""

TABLES = """
def _lines(file):
    lines = file.read().splitlines()
    typed = _typed(lines)
    return lines if typed is lines else [number for number in typed if number != ""]


def _rows(file):
    reader = csv.DictReader(file)
    rows = list(reader)
    for name in reader.fieldnames or ():
        for row, value in zip(rows, _typed([row[name] for row in rows])):
            row[name] = value
    return rows
"""

LISTS = """
def _listed(value):
    # Whatever can be gone through, as a list; a set has no order of its own.
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return value if isinstance(value, (str, dict)) or not hasattr(value, "__iter__") else list(value)
"""

WRITES = """
def _text(value):
    if isinstance(value, str):
        return value if value.endswith("\\n") else value + "\\n"
    value = _listed(value)
    if PATH.endswith(".json"):
        return json.dumps(value, indent=2) + "\\n"
    rows = value if isinstance(value, list) else [value]
    if not PATH.endswith(".csv"):
        return "".join(f"{row}\\n" for row in rows)
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\\n")
    if rows and isinstance(rows[0], dict):
        rows = [list(rows[0])] + [list(row.values()) for row in rows]
    for row in rows:
        cells = row.split(",") if isinstance(row, str) else row if isinstance(row, (list, tuple)) else [row]
        writer.writerow([str(cell) for cell in cells])
    return held.getvalue()
"""

PRINTS = """
def _print(value):
    if value is None:
        return
    value = _listed(value)
    if isinstance(value, list):
        value = "".join(f"{one}\\n" for one in value)
    text = str(value)
    sys.stdout.write(text if text.endswith("\\n") or not text else text + "\\n")
"""
