"""Runs the press: `python -m examples.press --port 0 --data FILE`."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from pathlib import Path

from .app import app_of
from .desk import Desk
from .store import Store
from .wire import Server, listen

DAY_SECONDS = 86_400.0
MOST_RETENTION_SECONDS = 100 * 365 * DAY_SECONDS


def main() -> int:
    """Serve until SIGTERM or SIGINT; 2 when the port is taken or the file can't be used."""
    parser = argparse.ArgumentParser(prog="python -m examples.press", description="A small outside system with faults.")
    parser.add_argument("--port", type=int, default=0, help="on the loopback; 0 for a free one")
    parser.add_argument("--data", type=Path, required=True, help="the SQLite file; made when it is not there")
    parser.add_argument(
        "--key-retention", type=_seconds, default=DAY_SECONDS, metavar="SECONDS", help="how long keys are remembered"
    )
    arguments = parser.parse_args()
    try:
        listener = listen(arguments.port)
        store = Store(arguments.data)
    except (OSError, OverflowError, sqlite3.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    desk = Desk(store, arguments.key_retention)
    server = Server(app_of(desk), listener, desk.closing.set)
    asyncio.run(server.serve([listener]))
    return 0


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < MOST_RETENTION_SECONDS:  # false for nan too
        raise ValueError(text)
    return value


if __name__ == "__main__":
    raise SystemExit(main())
