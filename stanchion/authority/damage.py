"""No row stops a batch: what the database refuses is found one by one, set aside for a while, and told loudly.

A batch is one transaction over many rows of all tenants, and stays so. Only when the database refuses it, its members are
done each in a transaction of its own; the one to blame is set aside with a time at which it is tried again, from 30 s up
to an hour apart. It stands in `set_aside`, which `stanchion doctor` shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar
from uuid import UUID

from stanchion.contracts.texts import clean
from stanchion.db.engine import Database
from stanchion.errors import SCHEMA_DIFFERS, StanchionError, Unavailable
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

log = get_logger()

Kind: TypeAlias = Literal["lease", "timer", "expansion", "run", "barrier"]
T = TypeVar("T")
RACES: Final = 3
"""So often an item that lost a race is tried before it is left to the next pass."""


class Damage:
    """Under the orchestrator's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def batch(self, kind: Kind, limit: int, act: Callable[[UUID | None], T]) -> list[T]:
        """`act(None)` does the whole batch. When that is refused, `act(item)` for each that is due; what they returned."""
        try:
            return [act(None)]
        except Unavailable:
            raise
        except StanchionError as error:
            _raise_if_systemic(error)
            log.warning("damage.one_by_one", kind=kind, code=error.code, what=error.what)
        rows = self.database.read("SELECT stanchion.due_items(%s, %s)", (kind, limit))
        found = (self.alone(kind, item, lambda item=item: act(item)) for (item,) in rows)  # type: ignore[misc]  # bound now
        return [one for one in found if one is not None]

    def alone(self, kind: Kind, item: UUID, act: Callable[[], T]) -> T | None:
        """Do one item; None when the database refuses it, which sets it aside, or when it lost its races."""
        for _ in range(RACES):
            try:
                return act()
            except Unavailable as error:
                if error.code != "E-DB-03":
                    raise
            except StanchionError as error:  # upkeep has no lease to lose: whatever is refused is refused for a row
                _raise_if_systemic(error)
                self._put_aside(kind, item, error)
                return None
        return None

    def _put_aside(self, kind: Kind, item: UUID, error: StanchionError) -> None:
        why = clean(error.what, 1_000)
        tries = self.database.call(
            "set_aside", "SELECT stanchion.put_aside(%s, %s, %s, %s)", (kind, item, error.code, why)
        )[0][0]
        metrics.set_aside.labels(kind).inc()
        log.error("damage.set_aside", kind=kind, item=str(item), tries=tries, code=error.code, why=why, exc_info=error)


def _raise_if_systemic(error: StanchionError) -> None:
    """No row is to blame for a schema of another version."""
    if error.code == SCHEMA_DIFFERS:
        raise error
