"""Where the nodes of a graph stand: layers by the longest path, few crossings by barycentres, long chains in bands.

Pure, and the same for the same graph. Lengths are those of the picture, in pixels; the picture's width is bounded by
`COLUMNS`, its height is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

COLUMNS: Final = 5
SWEEPS: Final = 4
NODE_WIDTH: Final = 184
GATE_WIDTH: Final = 92
NODE_HEIGHT: Final = 50
PASSED_HEIGHT: Final = 10  # of a place that an edge passes
GAP_X: Final = 44
GAP_Y: Final = 20
BAND_GAP: Final = 44
MARGIN: Final = 14


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place; with a gate before it, `gate` is the gate's left edge and `x` the node's own."""

    name: str
    x: int
    y: int
    gate: int | None
    height: int = NODE_HEIGHT
    width: int = NODE_WIDTH

    @property
    def left(self) -> int:
        """Where edges come in."""
        return self.x if self.gate is None else self.gate

    @property
    def right(self) -> int:
        """Where edges go out."""
        return self.x + self.width

    @property
    def middle(self) -> int:
        """Half its height."""
        return self.y + self.height // 2


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from one node to another, as the path of an SVG."""

    source: str
    target: str
    path: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole picture."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def layout(
    names: Sequence[str], edges: Iterable[tuple[str, str]], gated: frozenset[str] = frozenset(), columns: int = COLUMNS
) -> Layout:
    """Place nodes; an edge that would close a circle is drawn backwards. `gated` ones have a gate before them."""
    known = set(names)
    wanted = [(a, b) for a, b in dict.fromkeys(edges) if a in known and b in known and a != b]
    forward, back = _without_circles(names, wanted)
    depth = _depths(names, forward)
    routes, passed = _routes(forward, depth, columns)
    hops = [hop for route in routes.values() for hop in pairwise(route)]
    layers = _ordered([*names, *passed], hops, depth | passed)
    boxes, width, height = _placed(layers, gated, passed, columns)
    bands = {name: (depth | passed)[name] // columns for name in boxes}
    lines = [Edge(a, b, _path([boxes[name] for name in routes[a, b]], bands, width)) for a, b in forward]
    lines += [Edge(a, b, _back(boxes[a], boxes[b]), back=True) for a, b in back]
    return Layout(width, height, tuple(boxes[name] for name in names), tuple(lines))


def _without_circles(
    names: Sequence[str], edges: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Edges that lead on, and those that lead back to what is being walked; no recursion, whatever the depth."""
    out: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        out[a].append(b)
    state: dict[str, int] = {}
    back: set[tuple[str, str]] = set()
    for root in names:
        stack = [(root, iter(out[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            name, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                state[name] = 2
                stack.pop()
            elif state.get(target) == 1:
                back.add((name, target))
            elif target not in state:
                state[target] = 1
                stack.append((target, iter(out[target])))
    return [e for e in edges if e not in back], [e for e in edges if e in back]


def _depths(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest way from a beginning to each node."""
    into: dict[str, int] = dict.fromkeys(names, 0)
    out: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        out[a].append(b)
        into[b] += 1
    depth = dict.fromkeys(names, 0)
    free = [name for name in names if into[name] == 0]
    for name in free:  # it grows while it is walked
        for target in out[name]:
            depth[target] = max(depth[target], depth[name] + 1)
            into[target] -= 1
            if into[target] == 0:
                free.append(target)
    return depth


def _routes(
    edges: Sequence[tuple[str, str]], depth: Mapping[str, int], columns: int
) -> tuple[dict[tuple[str, str], list[str]], dict[str, int]]:
    """What each edge passes: a place of its own in every layer between its ends, so that it crosses no node.

    From band to band an edge runs in the space between them, and needs none there.
    """
    routes: dict[tuple[str, str], list[str]] = {}
    passed: dict[str, int] = {}
    for number, (a, b) in enumerate(edges):
        between = range(depth[a] + 1, depth[b])
        stops = [layer for layer in between if depth[a] // columns == layer // columns == depth[b] // columns]
        names = [f"\0{number}\0{layer}" for layer in stops]
        passed |= dict(zip(names, stops, strict=True))
        routes[a, b] = [a, *names, b]
    return routes, passed


def _ordered(names: Sequence[str], edges: Sequence[tuple[str, str]], depth: Mapping[str, int]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in names:
        layers[depth[name]].append(name)
    before: dict[str, list[str]] = {name: [] for name in names}
    after: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        place = {name: float(n) for layer in layers for n, name in enumerate(layer)}
        for layer in layers if down else reversed(layers):
            beside = before if down else after
            weight = {name: _mean([place[other] for other in beside[name]], place[name]) for name in layer}
            layer.sort(key=lambda name: weight[name])
            place |= {name: float(n) for n, name in enumerate(layer)}
    return layers


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _placed(
    layers: Sequence[Sequence[str]], gated: frozenset[str], passed: Mapping[str, int], columns: int
) -> tuple[dict[str, Box], int, int]:
    boxes: dict[str, Box] = {}
    top, widest = MARGIN, 0
    for first in range(0, len(layers), columns):
        band = layers[first : first + columns]
        x = MARGIN
        heights = [sum(_height(name, passed) + GAP_Y for name in layer) - GAP_Y for layer in band]
        for layer, tall in zip(band, heights, strict=True):
            gate = GATE_WIDTH if any(name in gated for name in layer) else 0
            y = top + (max(heights) - tall) // 2
            for name in layer:
                boxes[name] = Box(name, x + gate, y, x if name in gated else None, _height(name, passed))
                y += _height(name, passed) + GAP_Y
            x += gate + NODE_WIDTH + GAP_X
        widest = max(widest, x - GAP_X + MARGIN)
        top += max(heights) + BAND_GAP
    return boxes, widest, top - BAND_GAP + MARGIN if layers else 0


def _height(name: str, passed: Mapping[str, int]) -> int:
    return PASSED_HEIGHT if name in passed else NODE_HEIGHT


def _path(stops: Sequence[Box], bands: Mapping[str, int], width: int) -> str:
    first, last = stops[0], stops[-1]
    if bands[first.name] != bands[last.name]:
        # out to the right, through the space above the target's band, in from the left
        lane = last.y - BAND_GAP // 2 - (first.y // NODE_HEIGHT) % 3 * 5
        out = min(first.right + GAP_X // 2, width - 4)
        start = max(last.left - GAP_X // 2, 4)
        return f"M{first.right} {first.middle}H{out}V{lane}H{start}V{last.middle}H{last.left}"
    path = f"M{first.right} {first.middle}"
    x, y = first.right, first.middle
    for stop in stops[1:]:
        bend = max(GAP_X // 2, (stop.left - x) // 2)
        path += f"C{x + bend} {y} {stop.left - bend} {stop.middle} {stop.left} {stop.middle}"
        if stop is not last:
            path += f"H{stop.right}"
        x, y = stop.right, stop.middle
    return path


def _back(a: Box, b: Box) -> str:
    if a.y == b.y or a.x >= b.x:
        low = max(a.y, b.y) + NODE_HEIGHT + GAP_Y // 2
        return f"M{a.x + NODE_WIDTH // 2} {a.y + NODE_HEIGHT}V{low}H{b.x + NODE_WIDTH // 2}V{b.y + NODE_HEIGHT}"
    return f"M{a.right} {a.middle}L{b.left} {b.middle}"
