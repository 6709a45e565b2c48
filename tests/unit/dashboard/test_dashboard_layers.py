"""Where the nodes of a graph stand: always somewhere, never on each other, in as little width as was allowed."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.dashboard.drawing.layers import (
    COLUMNS,
    GAP_X,
    GATE_WIDTH,
    MARGIN,
    NODE_HEIGHT,
    NODE_WIDTH,
    Layout,
    layout,
)

WIDEST = 2 * MARGIN + COLUMNS * (NODE_WIDTH + GATE_WIDTH) + (COLUMNS - 1) * GAP_X

NAMES = st.integers(0, 24).map(lambda count: [f"n{number}" for number in range(count)])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]], frozenset[str]]:
    """Any graph, circles and edges to nowhere included."""
    names = draw(NAMES)
    ends = st.sampled_from([*names, "nobody"])
    edges = draw(st.lists(st.tuples(ends, ends), max_size=60))
    return names, edges, frozenset(draw(st.sets(st.sampled_from(names)))) if names else frozenset()


def overlap(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    """Whether two rectangles (left, top, right, bottom) share an inside."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def boxes_of(found: Layout) -> list[tuple[int, int, int, int]]:
    """The rectangles of all nodes, gates included."""
    return [(box.left, box.y, box.right, box.y + box.height) for box in found.boxes]


@given(graphs())
def test_every_node_has_a_place_of_its_own(given_: tuple[list[str], list[tuple[str, str]], frozenset[str]]) -> None:
    """Inside of the picture, which is never wider than its columns; no two share a place."""
    names, edges, gated = given_
    found = layout(names, edges, gated)
    assert [box.name for box in found.boxes] == names
    assert found.width <= WIDEST
    rectangles = boxes_of(found)
    for number, one in enumerate(rectangles):
        assert 0 <= one[0] < one[2] <= found.width
        assert 0 <= one[1] < one[3] <= found.height
        assert not any(overlap(one, other) for other in rectangles[:number])


@given(graphs())
def test_every_edge_is_drawn_once(given_: tuple[list[str], list[tuple[str, str]], frozenset[str]]) -> None:
    """Between nodes that are there, and to none of itself; a circle has an edge that leads back."""
    names, edges, gated = given_
    found = layout(names, edges, gated)
    wanted = {(a, b) for a, b in edges if a in names and b in names and a != b}
    assert sorted((edge.source, edge.target) for edge in found.edges) == sorted(wanted)
    assert all(re.fullmatch(r"[MCHVL0-9 .-]+", edge.path) for edge in found.edges)


@given(graphs())
def test_the_same_graph_is_the_same_picture(given_: tuple[list[str], list[tuple[str, str]], frozenset[str]]) -> None:
    """A page that is looked at again must not move."""
    assert layout(*given_) == layout(*given_)


def test_what_comes_after_stands_to_the_right() -> None:
    """A step is right of all that it waits for, by the longest way."""
    found = {box.name: box for box in layout("abcd", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]).boxes}
    assert found["a"].right < found["b"].left
    assert found["b"].right < found["c"].left
    assert found["c"].right < found["d"].left


def test_an_edge_passes_beside_the_nodes_between() -> None:
    """It has a place of its own in each layer that it passes."""
    found = layout("abc", [("a", "b"), ("b", "c"), ("a", "c")])
    boxes = {box.name: box for box in found.boxes}
    (long,) = [edge for edge in found.edges if (edge.source, edge.target) == ("a", "c")]
    heights = [int(y) for y in re.findall(r"C[0-9.]+ [0-9.]+ [0-9.]+ [0-9.]+ [0-9.]+ ([0-9]+)H", long.path)]
    assert heights
    assert all(not boxes["b"].y <= y <= boxes["b"].y + NODE_HEIGHT for y in heights)


def test_a_long_chain_goes_on_in_the_next_band() -> None:
    """Thirty steps in a row are no wider than a page."""
    names = [f"s{number}" for number in range(30)]
    found = layout(names, list(pairwise(names)))
    assert found.width <= 2 * MARGIN + COLUMNS * NODE_WIDTH + (COLUMNS - 1) * GAP_X
    assert len({box.y for box in found.boxes}) == 30 // COLUMNS


@pytest.mark.parametrize("count", [300, 2_000])
def test_a_chain_of_any_length_is_laid_out(count: int) -> None:
    """Without recursion."""
    names = [f"s{number}" for number in range(count)]
    edges = list(pairwise(names))
    assert len(layout(names, edges).edges) == count - 1


def test_a_circle_leads_back() -> None:
    """The edge that closes it is marked, the others go on."""
    found = layout("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert {(edge.source, edge.target): edge.back for edge in found.edges} == {
        ("a", "b"): False,
        ("b", "c"): False,
        ("c", "a"): True,
    }
