"""The desk: takes each request through its fault to its answer, and late requests to their work."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Final

from . import faults, keys, ledger, times, work
from .answers import Answer
from .faults import Fault
from .orders import Order
from .shapes import FaultKind
from .store import Store

Work = Callable[[Connection, Order, float], Answer]
"""`work(connection, order, retention_seconds)`, inside of a transaction."""

AFTER_AN_ERROR_SECONDS: Final = 1.0
WORKS: Final[Mapping[str, Work]] = {"POST": work.publish, "DELETE": work.retract}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrival:
    fault: Fault | None = None
    answer: Answer | None = None
    """Given when the fault says it all."""


class Desk:
    """`closing` is set when the process ends: whoever waits for a delay then leaves."""

    def __init__(self, store: Store, retention_seconds: float) -> None:
        self.store = store
        self.retention_seconds = retention_seconds
        self.closing = asyncio.Event()
        self._news = asyncio.Event()

    async def handle(self, order: Order, do: Work) -> Answer | None:
        """The answer, or None when the connection is to be cut."""
        arrival = await self.store.run(self._arrive, order)
        fault = arrival.fault
        if arrival.answer is not None:
            return arrival.answer
        if fault is not None and fault.kind is FaultKind.LATE:
            self._news.set()
            return None
        if fault is not None and fault.kind is FaultKind.DELAY and not await self._waited(fault.seconds or 0.0):
            return None
        return await self.store.run(self._work, order, do, fault)

    async def turn_away(self, order: Order, answer: Answer) -> None:
        """Note a request that can't be read."""

        def note(db: Connection) -> None:
            ledger.receive(db, order, order.channel)
            ledger.settle(db, order, answer.outcome, answer)

        await self.store.run(note)

    async def keep_late_requests(self) -> None:
        """Let late requests arrive when they are due; those too that an earlier process has put off."""
        while True:
            try:
                await self._await_late()
            except sqlite3.Error:
                log.exception("late requests wait")
                await asyncio.sleep(AFTER_AN_ERROR_SECONDS)

    async def _await_late(self) -> None:
        self._news.clear()  # before looking: what is put off from here on sets it again
        while await self.store.run(self._let_arrive):
            pass
        due = await self.store.run(ledger.next_due)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), None if due is None else max(0.0, due - times.now()))

    async def _waited(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.closing.wait(), seconds)
        except TimeoutError:
            return True
        return False

    # -- each of these is one transaction --

    def _arrive(self, db: Connection, order: Order) -> _Arrival:
        channel = order.channel or _channel_of(db, order.publication_id)
        ledger.receive(db, order, channel)
        gone = work.too_late(order)
        if gone is not None:
            ledger.settle(db, order, gone.outcome, gone)
            return _Arrival(answer=gone)
        fault = faults.take(db, order, channel)
        if fault is None:
            return _Arrival()
        ledger.strike(db, order, fault)
        refused = faults.refusal(fault)
        if refused is not None:
            ledger.settle(db, order, refused.outcome, refused)
        if fault.kind is FaultKind.LATE:
            ledger.postpone(db, order, fault.seconds or 0.0)
        if fault.kind is FaultKind.FORGET_KEYS:
            keys.forget(db)
        return _Arrival(fault, refused)

    def _work(self, db: Connection, order: Order, do: Work, fault: Fault | None) -> Answer | None:
        done = do(db, order, self.retention_seconds)
        answer = faults.spoil(fault, done)
        ledger.settle(db, order, done.outcome, answer)
        return answer

    def _let_arrive(self, db: Connection) -> bool:
        order = ledger.due(db)
        if order is None:
            return False
        done = WORKS[order.method](db, order, self.retention_seconds)
        ledger.settle(db, order, done.outcome, None)
        return True


def _channel_of(db: Connection, publication_id: str | None) -> str | None:
    row = db.execute("SELECT channel FROM publication WHERE id = ?", (publication_id,)).fetchone()
    return row["channel"] if row else None
