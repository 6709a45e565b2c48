"""One press for the tests of a module, and presses of their own for those that kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.press import PATIENCE, Press, fresh


@pytest.fixture(scope="module")
def shared_press(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Press]:
    """A running press."""
    made = Press(tmp_path_factory.mktemp("press")).start()
    yield made
    made.close()


@pytest.fixture
def press(shared_press: Press) -> Press:
    """The module's press, without faults."""
    shared_press.web.delete("/faults")
    return shared_press


@pytest.fixture
def own_press(tmp_path: Path) -> Iterator[Press]:
    """A press of this test's own, to kill and to start again; not started yet."""
    made = Press(tmp_path)
    yield made
    made.close()


@pytest.fixture
def channel() -> str:
    """A channel that no other test uses."""
    return fresh()


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return fresh("k")


@pytest.fixture
def eventually(eventually: Callable[..., Any]) -> Callable[..., Any]:
    """Waits as long as everything here may take."""
    return partial(eventually, seconds=PATIENCE)
