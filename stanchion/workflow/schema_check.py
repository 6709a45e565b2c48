"""Whether a JSON value can be what a registered schema describes: without its types, so where no user code is.

Cautious: only what surely does not fit is told. Of JSON Schema it knows what types make of themselves; what it does not
know (patterns, formats) and what comes after the first ten thousand values is left to the step, which checks all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stanchion.contracts.json_scanner import path_text

__all__ = ["CONVERTS", "misfit"]

Problem = tuple[str, str]  # JSON path, what is wrong there

CONVERTS: Final = "x-converts"
"""Marks a schema whose type may make something else of a value before it is looked at; no part of a graph's digest."""

_VALUES_CHECKED: Final = 10_000
_REFERENCES: Final = 32  # from one definition to the next, before a value is looked at
_NAMES_SHOWN: Final = 5


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    # 1.0 and 1 are one payload by its digest
    "integer": ("an integer", lambda value: _is_number(value) and value == int(value)),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}

_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("at least", lambda value, bound: value >= bound),
    "maximum": ("at most", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("more than", lambda value, bound: value > bound),
    "exclusiveMaximum": ("less than", lambda value, bound: value < bound),
}
_LENGTHS: Final[Mapping[str, tuple[type, str, str]]] = {
    "minLength": (str, "minimum", "characters"),
    "maxLength": (str, "maximum", "characters"),
    "minItems": (list, "minimum", "items"),
    "maxItems": (list, "maximum", "items"),
}


def misfit(value: Any, schema: Any, path: str, definitions: Mapping[str, Any]) -> Problem | None:
    """The first place at which a value surely is not what `schema` says, and why; never the value: it may be secret."""
    return _Check(definitions).look(value, schema, path)


class _Check:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self.left = _VALUES_CHECKED

    def look(self, value: Any, schema: Any, path: str) -> Problem | None:
        """The first problem at or below this value."""
        schema = self._resolved(schema)
        self.left -= 1
        if not isinstance(schema, dict) or self.left < 0 or CONVERTS in schema:
            return None
        return next((found for found in self._problems(value, schema, path) if found is not None), None)

    def _problems(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Problem | None]:
        yield self._kind(value, schema, path)
        yield _listed(value, schema, path)
        yield _bounded(value, schema, path)
        for part in schema.get("allOf", ()):
            yield self.look(value, part, path)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                yield self._choice(value, schema[key], path)
        if isinstance(value, dict):
            yield from self._members(value, schema, path)
        elif isinstance(value, list):
            yield from self._items(value, schema, path)

    def _kind(self, value: Any, schema: Mapping[str, Any], path: str) -> Problem | None:
        kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type") or []
        if not kinds or any(kind not in _KINDS or _KINDS[kind][1](value) for kind in kinds):
            return None
        return path, f"{' or '.join(_KINDS[kind][0] for kind in kinds)} is expected, and this is {_named(value)}"

    def _choice(self, value: Any, choices: Any, path: str) -> Problem | None:
        found = [problem for choice in choices if (problem := self.look(value, choice, path)) is not None]
        if len(found) < len(choices) or not found:
            return None
        # What went deepest came closest to fitting, so its problem is the one to tell.
        deepest = max(found, key=lambda problem: len(problem[0]))
        if deepest[0] != path:
            return deepest
        kinds = dict.fromkeys(what.partition(" is expected, ")[0] for _, what in found if " is expected, " in what)
        return (path, f"{' or '.join(kinds)} is expected, and this is {_named(value)}") if kinds else found[0]

    def _members(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[Problem | None]:
        known = schema.get("properties") or {}
        missing = [name for name in schema.get("required", ()) if name not in value]
        foreign = [name for name in value if name not in known]
        others = schema.get("additionalProperties")
        # A field may be sent under another name than the schema's: what is missing may be there under a foreign one.
        if missing and not foreign:
            yield path, f"{', '.join(missing[:_NAMES_SHOWN])} is missing"
        elif foreign and not missing and others is False:
            yield path_text(path, foreign[:1]), f"there is no such field; known are {', '.join(known) or 'none'}"
        for name, inner in value.items():
            if name in known or isinstance(others, dict):
                yield self.look(inner, known.get(name, others), path_text(path, [name]))

    def _items(self, value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[Problem | None]:
        first = schema.get("prefixItems") or []
        for number, inner in enumerate(value):
            if self.left < 0:
                return
            of_this = first[number] if number < len(first) else schema.get("items")
            if of_this is not None:
                yield self.look(inner, of_this, path_text(path, [number]))

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_REFERENCES):
            if not isinstance(schema, dict) or "$ref" not in schema or CONVERTS in schema:
                return schema
            schema = self.definitions.get(str(schema["$ref"]).removeprefix("#/$defs/"))
        return None


def _listed(value: Any, schema: Mapping[str, Any], path: str) -> Problem | None:
    wanted = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if not wanted or any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in wanted):
        return None
    return path, f"one of {', '.join(str(one) for one in wanted[:_NAMES_SHOWN])} is expected"


def _bounded(value: Any, schema: Mapping[str, Any], path: str) -> Problem | None:
    for key, (kind, bound, what) in _LENGTHS.items():
        if key in schema and isinstance(value, kind) and not _BOUNDS[bound][1](len(value), schema[key]):  # type: ignore[arg-type]  # a str or a list
            return path, f"{_BOUNDS[bound][0]} {schema[key]} {what} are expected"
    if _is_number(value):
        for key, (text, holds) in _BOUNDS.items():
            if isinstance(schema.get(key), int | float) and not holds(value, schema[key]):
                return path, f"{text} {schema[key]} is expected"
    return None


def _named(value: Any) -> str:
    for name in ("null", "boolean", "string", "integer", "number", "array"):
        text, fits = _KINDS[name]
        if fits(value):
            return text
    return "an object"
