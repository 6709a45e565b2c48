"""Comments as documentation: what stands behind a name on its line says what the name is for."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One named thing of a module: the section it stands in, its name and the comment on its line."""

    section: str
    name: str
    comment: str


def constants(module: ModuleType) -> list[Entry]:
    """The upper-case assignments of a module, in order."""
    source = inspect.getsource(module)
    said = _by_line(source)
    found = []
    for node in ast.parse(source).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id.isupper():
            found.append(Entry(_section(said, node.lineno), target.id, _trailing(said, node.lineno, node.end_lineno)))
    return found


def literals(module: ModuleType, name: str) -> list[Entry]:
    """The values of a module's `Literal` of texts, in order."""
    source = inspect.getsource(module)
    said = _by_line(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            texts = [n for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            texts.sort(key=lambda n: n.lineno)
            return [
                Entry(_section(said, n.lineno, since=node.lineno), str(n.value), _trailing(said, n.lineno, n.lineno))
                for n in texts
            ]
    raise LookupError(f"{module.__name__} has no {name}")


def fields(kind: type[Any]) -> dict[str, str]:
    """The comments behind the fields of a class and of those it inherits from, by name."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        try:
            lines, _ = inspect.getsourcelines(owner)
        except (OSError, TypeError):  # written in C, or made at run time
            continue
        source = inspect.cleandoc("\n" + "".join(lines)) if lines[0][:1] == " " else "".join(lines)
        said = _by_line(source)
        body = next((n.body for n in ast.parse(source).body if isinstance(n, ast.ClassDef)), [])
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = _trailing(said, node.lineno, node.end_lineno)
                found[node.target.id] = text or found.get(node.target.id, "")
    return found


def _by_line(source: str) -> dict[int, tuple[bool, str]]:
    """Line number -> (stands alone, text) of each comment."""
    lines = source.splitlines()
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            alone = lines[line - 1].strip().startswith("#")
            found[line] = (alone, token.string.lstrip("#").strip())
    return found


def _trailing(said: dict[int, tuple[bool, str]], first: int, last: int | None) -> str:
    for line in range(last or first, first - 1, -1):
        alone, text = said.get(line, (True, ""))
        if not alone and not text.startswith(("noqa", "type:")):
            return text
    return ""


def _section(said: dict[int, tuple[bool, str]], line: int, since: int = 0) -> str:
    """The nearest `# --- title ---` above a line."""
    for number in range(line, since, -1):
        alone, text = said.get(number, (False, ""))
        if alone and text.startswith("---") and text.endswith("---"):
            return text.strip("- ")
    return ""
