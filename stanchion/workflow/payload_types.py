"""Which types may cross a process.

JSON types, dataclasses, pydantic models, TypedDict, enums, dates, UUID, Decimal and unions of these have one JSON form.
What has none (bytes, open files, functions), or one whose order may differ in another process (sets), is refused while
the workflow is defined: found at run time it would fail a task after its work was done.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterator
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin

from pydantic import PydanticSchemaGenerationError, PydanticUserError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation

from stanchion.workflow.carrier import carrier
from stanchion.workflow.type_fitter import members, named, plain

__all__ = ["Unsendable", "prove_sendable"]

_SCHEMALESS: Final = re.compile(r"generate pydantic-core schema for (?:<class '([^']+)'>|(\S+?))\.? ")
_LAZY: Final = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncGenerator,
    abc.AsyncIterable,
    abc.Iterable,
)
_AWAITED: Final = (abc.Awaitable, abc.Coroutine)


class Unsendable(Exception):  # noqa: N818 - a finding, which becomes an error with a place
    """Why a type can't be sent, and what to do instead."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = fix


def prove_sendable(kind: Any) -> None:
    """Raise Unsendable unless values of this type have one JSON form."""
    _refuse_lazy(kind)
    try:
        schemas = [carrier(kind).json_schema(result=result) for result in (True, False)]
    except PydanticUndefinedAnnotation as error:
        raise Unsendable(
            f"it names {error.name!r}, which is not defined yet", f"define {error.name} before the step"
        ) from None
    except PydanticInvalidForJsonSchema:
        raise Unsendable(
            f"{named(kind)} has no JSON form", "use a dataclass or a pydantic model of JSON types"
        ) from None
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise _unsendable(kind, error) from None
    for schema in schemas:
        for path, fault, fix in _faults(schema, ""):
            raise Unsendable(f"{path}: {fault}" if path else fault, fix)


def _refuse_lazy(kind: Any) -> None:
    for member in members(kind):
        origin = get_origin(member) or member
        if isinstance(origin, TypeVar):
            raise Unsendable(f"{named(member)} is a type variable, so nobody knows what crosses", "name the type")
        if origin in (Final, ClassVar):
            raise Unsendable(f"{named(member)} says how a name is used, not what it holds", "name the type inside")
        if origin in _AWAITED:
            raise Unsendable(
                f"{named(member)} is not there until it is awaited", "write async def, and name what it gives"
            )
        if origin in _LAZY:
            raise Unsendable(f"{named(member)} has no end that is known", "use list[...]")
        if get_origin(member) is not None:
            for inner in get_args(member):
                if isinstance(inner, type) or get_origin(inner) or isinstance(inner, TypeVar):
                    _refuse_lazy(inner)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _unsendable(kind: Any, error: Exception) -> Unsendable:
    why = _first_line(error)
    if "typing_extensions.TypedDict" in why:
        return Unsendable(
            "Python 3.11 keeps too little of its own TypedDict", "from typing_extensions import TypedDict"
        )
    found = _SCHEMALESS.search(why)
    name = (found.group(1) or found.group(2)).rpartition(".")[2] if found else named(plain(kind))
    return Unsendable(
        f"{name} has no JSON form" if found else why,
        f"make {name} a dataclass or a pydantic model, or pass what identifies it",
    )


def _faults(schema: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Where a schema holds something without one JSON form: path, fault, fix."""
    if not isinstance(schema, dict):
        return
    if schema.get("format") == "binary":
        yield path, "bytes have no JSON form", "use str (base64), or an artifact"
    if schema.get("writeOnly"):
        yield path, "secrets are masked when they are written", "pass a name under which the step finds the secret"
    if schema.get("uniqueItems"):
        yield path, "the order of a set differs between processes", "use list[...]"
    for key in ("properties", "$defs"):
        for name, inner in (schema.get(key) or {}).items():
            prefix = name if key == "$defs" else f"{path}.{name}".lstrip(".")
            yield from _faults(inner, prefix)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        yield from _faults(schema.get(key), f"{path}{mark}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key) or ():
            yield from _faults(inner, path)
