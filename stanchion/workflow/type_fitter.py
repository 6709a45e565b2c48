"""Whether what one step returns fits what the next one takes; and how a type is named in a message.

A value crosses as JSON and is built anew for the step that takes it. So containers are compared by what they hold (a
list may arrive as a tuple, and list[Sub] as list[Base]), and a bool, which JSON keeps apart, never becomes a number.
Beyond that the rules are those of a type checker.
"""

from __future__ import annotations

import types
from collections import abc
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin

import typing_extensions
from typing_extensions import is_typeddict  # that of typing does not know the TypedDict of typing_extensions

__all__ = ["element_of", "fits", "members", "named", "plain", "with_none"]

_ARRAYS: Final = (list, tuple, abc.Sequence, abc.MutableSequence)
_OBJECTS: Final = (dict, abc.Mapping, abc.MutableMapping)
_ANYTHING: Final = (Any, object)


def plain(kind: Any) -> Any:
    """`kind` without Annotated, alias names and the old spelling of None."""
    while True:
        if get_origin(kind) in (Annotated, typing_extensions.Required, typing_extensions.NotRequired):
            kind = get_args(kind)[0]
        elif _is_alias(kind):
            kind = kind.__value__
        else:
            return type(None) if kind is None else kind


def _is_alias(kind: Any) -> bool:
    return hasattr(kind, "__value__") and hasattr(kind, "__type_params__")  # type X = ..., of 3.12


def members(kind: Any) -> tuple[Any, ...]:
    """The members of a union, flat; a single type is a union of one."""
    kind = plain(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for member in get_args(kind) for inner in members(member))
    return (kind,)


def with_none(kind: Any) -> Any:
    """`kind | None`."""
    return Union[kind, None]  # noqa: UP007 - built at run time, from things that may lack the | operator


def element_of(kind: Any) -> tuple[Any] | None:
    """The type of one item, in a tuple of one, when `kind` is a list, a Sequence or a tuple[T, ...]; else None."""
    kind = plain(kind)
    origin = get_origin(kind) or kind
    if origin not in _ARRAYS:  # not by subclass: a str is a Sequence too
        return None
    args = get_args(kind)
    if origin is tuple:
        return (args[0],) if len(args) == 2 and args[1] is Ellipsis else None
    return (args[0] if args else Any,)


def fits(given: Any, wanted: Any) -> bool:
    """Whether every value of type `given` can be taken as `wanted`."""
    given_members = [value for one in members(given) for value in _literals(one)]
    return all(any(_one_fits(one, other) for other in members(wanted)) for one in given_members)


def _literals(kind: Any) -> list[Any]:
    """A Literal of several values as several of one."""
    return [Literal[value] for value in get_args(kind)] if get_origin(kind) is Literal else [kind]


def _one_fits(given: Any, wanted: Any) -> bool:
    if wanted in _ANYTHING or given is Any or given == wanted:
        return True
    if isinstance(given, NewType):
        return fits(given.__supertype__, wanted)
    if get_origin(given) is Literal:
        return _literal_fits(get_args(given)[0], wanted)
    inner = element_of(given)
    if inner is not None or get_origin(given) is tuple:
        return _array_fits(given, inner, wanted)
    origin, other = get_origin(given) or given, get_origin(wanted) or wanted
    if is_typeddict(given):
        return other in _OBJECTS and (get_args(wanted) or (Any, Any))[1] in _ANYTHING
    if origin in _OBJECTS and other in _OBJECTS:
        return _args_fit(get_args(given) or (Any, Any), get_args(wanted) or (Any, Any))
    if get_origin(given) or get_origin(wanted):
        return origin == other and _args_fit(get_args(given), get_args(wanted))
    return _class_fits(given, wanted)


def _class_fits(given: Any, wanted: Any) -> bool:
    if given is int and wanted is float:
        return True
    if (given is bool and wanted is not bool) or (given is datetime and wanted is date):
        return False  # subclasses in Python, other things in JSON
    return _is_a(given, wanted)


def _literal_fits(value: Any, wanted: Any) -> bool:
    if get_origin(wanted) is Literal:
        return (type(value), value) in [(type(allowed), allowed) for allowed in get_args(wanted)]
    return _one_fits(type(value), wanted)


def _array_fits(given: Any, inner: tuple[Any] | None, wanted: Any) -> bool:
    outer = element_of(wanted)
    if outer is not None:
        items = inner if inner is not None else get_args(given)
        return all(fits(item, outer[0]) for item in items)
    return get_origin(wanted) is tuple and inner is None and _args_fit(get_args(given), get_args(wanted))


def _args_fit(given: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return len(given) == len(wanted) and all(fits(one, other) for one, other in zip(given, wanted, strict=True))


def _is_a(kind: Any, parent: Any) -> bool:
    try:
        return isinstance(kind, type) and isinstance(parent, type) and issubclass(kind, parent)
    except TypeError:  # a TypedDict, or a protocol that is not for run time
        return False


def named(kind: Any) -> str:
    """`kind` as its author would write it: Url, list[Page], Draft | None."""
    if isinstance(kind, str):
        return repr(kind)
    if _is_alias(kind):  # by its name: it may contain itself
        return str(kind.__name__)
    if len(members(kind)) > 1:
        return " | ".join(named(member) for member in members(kind))
    kind = plain(kind)
    if kind is type(None):
        return "None"
    if kind is Ellipsis:
        return "..."
    if isinstance(kind, NewType | TypeVar):
        return str(kind.__name__)
    args = get_args(kind)
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(repr(value) for value in args)}]"
    if args:
        return f"{named(get_origin(kind))}[{', '.join(named(arg) for arg in args)}]"
    if isinstance(kind, type):
        return kind.__qualname__.rpartition("<locals>.")[2]
    return str(getattr(kind, "_name", None) or kind).removeprefix("typing.")
