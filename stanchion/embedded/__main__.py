"""`python -m stanchion.embedded`: the servers in the foreground; one line of JSON when they are ready."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from stanchion.embedded.errors import EmbeddedError
from stanchion.embedded.supervisor import DEFAULT_ROOT, EmbeddedServers

_FAILED = 3


def main() -> int:
    """Run until SIGTERM, SIGINT or SIGHUP; exit code 0 then, 3 when the servers could not be started."""
    options = _parser().parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    if options.clean:
        return _clean(options.root)
    stopping = False  # no Event: the handler may run inside its `wait`, which holds its lock

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            return  # the second Ctrl-C of an impatient person must not break the ordered stop
        stopping = True
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    servers = EmbeddedServers(
        options.root, kafka=options.kafka, fsync=options.fsync, ephemeral=options.ephemeral, cache=options.cache
    )
    try:
        endpoints = servers.start()
        sys.stdout.write(json.dumps(endpoints.as_dict()) + "\n")
        sys.stdout.flush()
        while True:
            time.sleep(1.0)  # not for ever: a signal on the way into the wait is heard when it ends
    except KeyboardInterrupt:
        return 0
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    finally:
        stopping = True
        servers.stop()


def _clean(root: Path) -> int:
    try:
        EmbeddedServers.clean(root)
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stanchion.embedded", description=__doc__)
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="data, logs and locks (default: .stanchion)")
    parser.add_argument("--kafka", choices=["tansu", "apache", "apache-3"], default="tansu", help="which broker")
    parser.add_argument("--no-fsync", dest="fsync", action="store_false", help="faster; for tests only")
    parser.add_argument("--ephemeral", action="store_true", help="remove the root at the end")
    parser.add_argument("--cache", type=Path, help="keep Apache Kafka's artifacts here")
    parser.add_argument("--clean", action="store_true", help="end leftovers, remove everything, and leave")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
