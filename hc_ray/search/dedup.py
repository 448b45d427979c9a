"""When two answers are the same candidate: by the normal form of their files."""

import ast
import warnings
from collections.abc import Mapping

from hc_ray.domain.value import digest_of


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the normal form of the files: equal digests are the same candidate."""
    return digest_of({path: normal_form(path, text) for path, text in files.items()})


def normal_form(path: str, text: str) -> str:
    """A text that equal candidates share. Python: without layout, comments and documentation. Anything else: without
    trailing space."""
    return (_python(text) if path.endswith(".py") else None) or _plain(text)


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _python(text: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    _forget_documentation(node)
            return ast.dump(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _forget_documentation(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:] or [ast.Pass()]
