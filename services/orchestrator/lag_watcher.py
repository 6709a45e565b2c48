"""The lag watcher: asks the broker every five seconds how far its readers are; of all orchestrators one at a time does."""

from __future__ import annotations

from dataclasses import asdict

from stanchion.authority.pipeline import Pipeline
from stanchion.bus.lag_reader import LagReader, Look
from stanchion.errors import Rejected, Unavailable

LOOK_SECONDS = 2.0
"""How often it looks whether it is its turn."""


class LagWatcher:
    """`run_once` takes a turn and asks; what the broker answers is kept, and what keeps it from answering as well."""

    name = "lag-reader"

    def __init__(self, pipeline: Pipeline, reader: LagReader, who: str) -> None:
        self.pipeline = pipeline
        self.reader = reader
        self.who = who

    def run_once(self) -> bool:
        """Ask once, if it is this one's turn."""
        if not self.pipeline.turn(self.who):
            return False
        try:
            look = self.reader.look()
        except (Unavailable, Rejected) as fault:
            self.pipeline.note_fault(fault)
        else:
            self._note(look)
        return False

    def _note(self, look: Look) -> None:
        self.pipeline.note(
            [{"name": group.name, "state": group.state, "members": group.members} for group in look.groups],
            [asdict(standing) for standing in look.standings],
        )

    def start(self) -> None:
        """Nothing: the first look connects."""

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Give the connections up; its loop has ended."""
        self.reader.close()
        return True
