"""The documentation inside Python source: docstrings of public modules, classes, functions and attributes.

The source is parsed, never imported: reading a document must not run it.
"""

from __future__ import annotations

import ast
import inspect
import threading
import warnings
from collections.abc import Iterator

from .blocks import Outline, Unreadable
from .inline import inline
from .passages import sentences
from .plaintext import parse

_PARSING = threading.Lock()
_SHORTEST = 24
_SHORT = 90
_INNER = 10
"""Headings inside a docstring start at this level, below every name that can contain them."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def parse_source(source: bytes | str, module: str, outline: Outline) -> None:
    """Reads the docstrings of a module's public names, each under a heading with its qualified name.

    Raises `Unreadable` for source that this Python cannot parse.
    """
    try:
        # ast.parse warns about odd escapes in other people's code; the filters are global, hence the lock.
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"not valid Python source ({type(error).__name__})") from error
    _visit(tree, module, 1, outline)


def _visit(node: Documented, name: str, level: int, outline: Outline) -> None:
    text = _docstring(node)
    if isinstance(node, ast.ClassDef):
        text = "\n\n".join(part for part in (text, _init_docstring(node)) if part)
    if len(text) >= _SHORTEST:
        outline.heading(level, name)
        parse(text, outline, base=_INNER)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if isinstance(node, ast.ClassDef):
        _short_methods(node, name, level, outline)
    prefix = name if isinstance(node, ast.Module) else name.rsplit(".", 1)[-1]
    _attributes(node, prefix, level + 1, outline)
    for child in _unwrapped(node.body):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef) and _is_short(child):
            continue
        if level < _INNER - 1 and not _is_overload(child):
            _visit(child, f"{prefix}.{child.name}", level + 1, outline)


def _unwrapped(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, with those inside `if` and `try`: what a module defines may hang on the version."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _unwrapped([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from _unwrapped([*statement.body, *(s for handler in statement.handlers for s in handler.body)])
        else:
            yield statement


def _short_methods(node: ast.ClassDef, name: str, level: int, outline: Outline) -> None:
    """Methods with a line of documentation each say little alone: together they show what a class can do."""
    lines = []
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name[0] != "_" and _is_short(child):
            arguments = ", ".join(
                a.arg for a in (*child.args.args, *child.args.kwonlyargs) if a.arg not in ("self", "cls")
            )
            lines.append(f"`{child.name}({arguments})`: {sentences(inline(' '.join(_docstring(child).split())))[0]}")
    if lines:
        outline.heading(level, name)
        outline.add("text", " ".join(line if line.endswith((".", "!", "?")) else f"{line}." for line in lines))


def _is_short(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    text = _docstring(node)
    return 0 < len(text) <= _SHORT and "\n\n" not in text and "::" not in text


def _docstring(node: Documented) -> str:
    return ast.get_docstring(node, clean=True) or ""


def _init_docstring(node: ast.ClassDef) -> str:
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            return _docstring(child)
    return ""


def _attributes(node: ast.Module | ast.ClassDef, prefix: str, level: int, outline: Outline) -> None:
    """Strings that stand behind an assignment document it."""
    for statement, following in zip(node.body, node.body[1:], strict=False):
        target = _assigned(statement)
        if not target or target.startswith("_") or not isinstance(following, ast.Expr):
            continue
        value = following.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and len(value.value) >= _SHORTEST:
            outline.heading(level, f"{prefix}.{target}")
            parse(inspect.cleandoc(value.value), outline, base=_INNER)


def _assigned(statement: ast.stmt) -> str:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _is_overload(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any("overload" in ast.dump(decorator) for decorator in decorators)
