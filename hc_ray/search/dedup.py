"""When two answers are the same candidate: by the normal form of their files."""

import ast
import re
import warnings
from collections.abc import Mapping

from hc_ray.domain.value import digest_of

_LOOKS_AT_NAMES = {"locals", "globals", "vars", "eval", "exec", "dir", "inspect", "__import__"}
"""Where one of these is used, the name of a local variable may be seen."""
_C_TEXT = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_C_COMMENTS = re.compile(rf"({_C_TEXT})|//[^\n]*|/\*.*?\*/", re.S)
_C_TOKENS = re.compile(rf"{_C_TEXT}|[^\s\"']+|.", re.S)


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the normal form of the files: equal digests are the same candidate."""
    return digest_of({path: normal_form(path, text) for path, text in files.items()})


def normal_form(path: str, text: str) -> str:
    """A text that equal candidates share. Python: without layout, comments, documentation, and with one name for the
    n-th local variable of a function. Shell: without lines that are comments. C: without comments and layout. Anything
    else: without trailing space."""
    if path.endswith(".py"):
        return _python(text) or _plain(text)
    if path.endswith((".sh", ".bash")):
        lines = text.strip().splitlines()
        kept = [line for i, line in enumerate(lines) if line.strip() and (i == 0 or not line.lstrip().startswith("#"))]
        return _plain("\n".join(kept)) if "<<" not in text else _plain(text)
    if path.endswith((".c", ".h")):
        # A directive ends with its line: there the line break is more than layout.
        bare = _C_COMMENTS.sub(lambda match: match[1] or " ", text)
        return "\n".join(" ".join(t for t in _C_TOKENS.findall(piece) if t.strip()) for piece in _c_pieces(bare))
    return _plain(text)


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _python(text: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            nodes = list(ast.walk(tree))
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            for node in nodes:
                if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    _forget_documentation(node)
            if not names & _LOOKS_AT_NAMES:
                for node in nodes:
                    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                        _rename_locals(node)
            return ast.dump(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _forget_documentation(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:] or [ast.Pass()]


def _rename_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """The n-th variable that a function assigns gets the n-th name. Parameters keep theirs (a caller may use them); a
    function that holds another scope, or declares names of an outer one, is left alone."""
    inner = [node for node in ast.walk(function) if node is not function]
    if any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.Global
                      | ast.Nonlocal | ast.Import | ast.ImportFrom) for node in inner):  # fmt: skip
        return
    given = function.args
    parameters = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
                  if one is not None}  # fmt: skip
    order: dict[str, str] = {}
    for node in inner:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in parameters:
            order.setdefault(node.id, f"local {len(order)}")
    for node in inner:
        if isinstance(node, ast.Name) and node.id in order:
            node.id = order[node.id]


def _c_pieces(text: str) -> list[str]:
    """C in pieces: each directive by itself, what lies between as one."""
    pieces: list[str] = [""]
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            pieces += [line, ""]
        else:
            pieces[-1] += line + "\n"
    return [piece for piece in pieces if piece.strip()]
