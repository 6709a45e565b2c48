"""What differs between two JSON values, by the structure: fields by name, items of a list by their key where they have one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stanchion.contracts import payload

KEYS: Final = ("id", "key", "name", "path", "url")
"""Fields by which items of a list are told apart, the first one that all of them have, each with another value."""
MOST: Final = 500
LINES: Final = 400
LONG: Final = 80
PAIRS: Final = 1_000_000
"""Above so many pairs of items (or lines) they are compared place by place: matching thousands of equal ones takes minutes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `lines` are those of two long texts, each with `+`, `-` or a blank before it."""

    path: str
    kind: str
    before: Any = None
    after: Any = None
    lines: tuple[tuple[str, str], ...] = ()


def differences(before: Any, after: Any) -> list[Change]:
    """What was added, removed or changed, in the order of what is there now; at most `MOST` of them."""
    found: list[Change] = []
    for change in _between(before, after, ""):
        if len(found) == MOST:
            break
        found.append(change)
    return found


def _between(before: Any, after: Any, path: str) -> Iterator[Change]:
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    elif isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > LONG:
        yield Change(path or "the whole", "changed", before, after, _text(before, after))
    else:
        yield Change(path or "the whole", "changed", before, after)


def _fields(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Change]:
    for name in [*after, *(name for name in before if name not in after)]:
        below = f"{path}.{name}" if path else name
        if name not in before:
            yield Change(below, "added", after=after[name])
        elif name not in after:
            yield Change(below, "removed", before=before[name])
        else:
            yield from _between(before[name], after[name], below)


def _items(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Change]:
    key = _key(before, after)
    if key is not None:
        old, new = ({str(item[key]): item for item in items} for items in (before, after))
        for name in [*new, *(name for name in old if name not in new)]:
            below = f"{path}[{key}={name}]"
            if name not in old:
                yield Change(below, "added", after=new[name])
            elif name not in new:
                yield Change(below, "removed", before=old[name])
            else:
                yield from _between(old[name], new[name], below)
        if [name for name in old if name in new] != [name for name in new if name in old]:
            yield Change(path or "the whole", "moved", before=list(old), after=list(new))
        return
    yield from _by_place(before, after, path)


def _by_place(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Change]:
    old, new = ([payload.canonical(item) for item in items] for items in (before, after))
    for tag, i, i_end, j, j_end in _runs(old, new):
        if tag == "equal":
            continue
        both = min(i_end - i, j_end - j)
        for n in range(both):
            yield from _between(before[i + n], after[j + n], f"{path}[{j + n}]")
        for n in range(j + both, j_end):
            yield Change(f"{path}[{n}]", "added", after=after[n])
        for n in range(i + both, i_end):
            yield Change(f"{path}[{n}]", "removed", before=before[n])


def _runs(old: Sequence[bytes], new: Sequence[bytes]) -> Iterable[tuple[str, int, int, int, int]]:
    if len(old) * len(new) > PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _key(*sides: Sequence[Any]) -> str | None:
    if not all(sides) or not all(isinstance(item, dict) for side in sides for item in side):
        return None
    for key in KEYS:
        values = [[item.get(key) for item in side] for side in sides]
        texts = all(isinstance(value, str | int) for side in values for value in side)
        if texts and all(len({str(value) for value in side}) == len(side) for side in values):
            return key
    return None


def _same(before: Any, after: Any) -> bool:
    return payload.canonical(before) == payload.canonical(after)  # True == 1 in Python, and not in JSON


def _text(before: str, after: str) -> tuple[tuple[str, str], ...]:
    old, new = before.splitlines(), after.splitlines()
    if len(old) * len(new) > PAIRS:
        return ()
    lines = difflib.unified_diff(old, new, n=2, lineterm="")
    return tuple((line[:1], line[1:]) for line in list(lines)[2 : LINES + 2])
