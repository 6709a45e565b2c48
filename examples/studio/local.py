"""Runs the studio in one process, without servers: `python -m examples.studio.local --topic "..." [--sources DIR]`.

A tool for working on the studio itself: nothing here survives a kill, and the documents are read one after the other.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .planning import TopicError, make_plan, tasks_of
from .reading import read_document
from .review import review_draft
from .sources import SourceError
from .writing import write_draft


def main(argv: list[str] | None = None) -> int:
    """Prints a report on stdout (or writes it to `--output`) and timings on stderr; 2 for a bad topic or source."""
    parser = argparse.ArgumentParser(prog="python -m examples.studio.local", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--topic", required=True)
    parser.add_argument("--sources", nargs="*", help="folders, files, @packages, @topics, @modules; default: all three")
    parser.add_argument("--output", type=Path, help="write the report here instead of stdout")
    arguments = parser.parse_args(argv)
    clock = _Clock()
    try:
        plan, documents = make_plan(arguments.topic, arguments.sources)
    except (TopicError, SourceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    clock.lap(f"plan: {len(documents)} documents, {len(plan.questions)} questions")
    readings = [read_document(task) for task in tasks_of(plan, documents)]
    clock.lap(f"read: {sum(reading.passages for reading in readings):,} passages")
    draft = write_draft(plan, readings)
    clock.lap(f"draft: {len(draft.citations)} citations")
    report = review_draft(draft)
    clock.lap(f"review: {report.resolved} resolved, {report.unresolved} unresolved")
    if arguments.output:
        arguments.output.write_text(report.markdown, encoding="utf-8")
    else:
        print(report.markdown)
    return 0


class _Clock:
    def __init__(self) -> None:
        self.last = time.process_time()

    def lap(self, text: str) -> None:
        now = time.process_time()
        print(f"{now - self.last:6.2f} s  {text}", file=sys.stderr)
        self.last = now


if __name__ == "__main__":
    raise SystemExit(main())
