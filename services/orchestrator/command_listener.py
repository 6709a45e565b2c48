"""The command listener: PlanRun messages wake the lookout. The work itself is found in the database, so a lost message
costs half a second, and a repeated one nothing."""

from __future__ import annotations

from threading import Event

from stanchion.bus.consumer import Consumer


class CommandListener:
    """`run_once` takes what has arrived and wakes; a message that can't be read wakes as well as any other."""

    def __init__(self, consumer: Consumer, wake: Event) -> None:
        self.consumer = consumer
        self.wake = wake

    def run_once(self) -> bool:
        """Take a batch of commands, if there is one."""
        records = self.consumer.take(1_000)
        if records:
            self.wake.set()
            self.consumer.done(records)
        return bool(records)
