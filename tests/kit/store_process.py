"""A process that puts an object, to be measured or killed: `store_process.py URL MIB HOW`.

`whole` prints what was put and how far its memory grew, as JSON; `stuck` prints a line once all MIB are given, and then
gives nothing more; `loop` puts one object after the other, each of its own content, and prints the hash of each that
is put.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from stanchion.objects import open_store

MIB = 1024 * 1024


def main(url: str, mib: int, how: str) -> None:
    with open_store(url) as store:
        store.stat(bytes(32))
        if how == "loop":
            for number in itertools.count():
                say(store.put(content(mib, number), most_bytes=10**12).sha256.hex())
        before = peak_kib()
        put = store.put(content(mib) if how == "whole" else stuck(mib), most_bytes=10**9)
        read = store.verify(put.sha256)
        say(json.dumps({"sha256": put.sha256.hex(), "size": read.size, "grown_mib": (peak_kib() - before) / 1024}))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def content(mib: int, seed: int = 0) -> Iterator[bytes]:
    """Chunks of 1 MiB, each another."""
    for number in range(mib):
        yield hashlib.sha256(f"{seed} {number}".encode()).digest() * (MIB // 32)


def stuck(mib: int) -> Iterator[bytes]:
    yield from content(mib)
    say("stuck")
    sys.stdin.read()


def peak_kib() -> int:
    """The most memory this process had (not, as getrusage says, also what its parent had before it)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
