"""python.md: what `stanchion` exports, with signatures."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import stanchion

from .markdown import code, fence, page, section

_LINE: Final = 100


def python_page() -> str:
    """The page of the public names."""
    intro = (
        "Everything below is imported from `stanchion` itself; what is not listed here may change without notice. "
        "Importing the package opens nothing: no connection, no file, no thread."
    )
    names: list[str] = getattr(stanchion, "__all__", [])
    blocks = [_name(name, getattr(stanchion, name)) for name in sorted(names, key=str.lower)]
    return page("Python", intro, *blocks)


def _name(name: str, value: Any) -> str:
    text = inspect.getdoc(value) or "" if not isinstance(value, str | int) else repr(value)
    if not inspect.isclass(value):
        signature = fence(f"{name}{_unquoted(str(inspect.signature(value)))}", "python") if callable(value) else ""
        return section(name, signature, text)
    return section(name, fence(_signature(name, value), "python"), text, _members(value))


def _signature(name: str, value: Any) -> str:
    try:
        return f"class {name}{_unquoted(str(inspect.signature(value)))}"
    except (TypeError, ValueError):
        return f"class {name}"


def _unquoted(signature: str) -> str:
    """Annotations that are kept as texts, without their quotes; one argument a line when it is long."""
    signature = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", signature)
    plain = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature).removesuffix(" -> None")
    if len(plain) <= _LINE:
        return plain
    arguments = re.split(r", (?=[\w*/]+(?:: |,|$))", plain[1:-1])
    return "(\n" + "".join(f"    {one},\n" for one in arguments) + ")"


def _members(kind: type[Any]) -> str:
    lines = []
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            lines.append(f"- {code(name)}: {_first(value)}")
        elif inspect.isfunction(value):
            lines.append(f"- {code(f'{name}({_arguments(value)})')}: {_first(value)}")
    return "\n".join(lines)


def _arguments(function: Any) -> str:
    names = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.append("*" + parameter.name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            names.append("**" + parameter.name)
        else:
            names.append(parameter.name + ("" if parameter.default is parameter.empty else "="))
    return ", ".join(names)


def _first(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
