"""`stanchion dev`: servers and services on this machine under one supervisor, until Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from stanchion.cli.command import verb
from stanchion.cli.ink import for_people
from stanchion.cli.session import Session
from stanchion.cli.spans import Span

if TYPE_CHECKING:
    from stanchion.cli.stack import Stack

_RELOAD_LOOK_SECONDS: Final = 0.5


@verb(
    "dev",
    examples=[
        "stanchion dev reports.py",
        "stanchion dev my.package:brief --workers 3",
        "stanchion dev reports.py --submit 'brief topic=cats'",
        "stanchion dev --kafka apache",
        "STANCHION_DATABASE_URL=postgresql://postgres@localhost/stanchion stanchion dev reports.py",
    ],
    see_also=["stanchion doctor", "stanchion task submit", "stanchion serve"],
)
@click.argument("targets", nargs=-1)
@click.option("--workers", type=click.IntRange(0, 64), default=1, show_default=True, help="How many worker processes.")
@click.option("--slots", type=click.IntRange(1, 1_000), help="Steps that one worker runs at a time.")
@click.option("--lease-seconds", type=Span(2, 3_600), metavar="TIME", help="How long a worker's hold on a step lasts.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Of the API; default: as the last time.")
@click.option(
    "--kafka", type=click.Choice(["tansu", "apache", "apache-3"]), default="tansu", help="Which broker to embed."
)
@click.option("--root", type=click.Path(path_type=Path), help="Data, logs, addresses; default: .stanchion/dev.")
@click.option("--submit", metavar="TEXT", help="A task to submit once all is up, as for `stanchion task submit`.")
@click.option("--no-reload", is_flag=True, help="Leave workers alone when a target, or what it imports, changes.")
def dev(
    session: Session,
    targets: tuple[str, ...],
    *,
    root: Path | None,
    submit: str | None,
    no_reload: bool,
    **options: Any,
) -> int:
    """Run everything on this machine: PostgreSQL, a Kafka broker, Valkey, and all services with your workflows.

    TARGET is a file (reports.py), a module (my.package) or a workflow in it (my.package:brief). Servers that
    STANCHION_DATABASE_URL, STANCHION_KAFKA_BOOTSTRAP or STANCHION_REDIS_URL name are used as they are. Other commands
    find this stack by themselves from this folder or below it. Ctrl-C stops all; the data stay.
    """
    from stanchion.cli.stack import DEFAULT_ROOT, Stack

    talk = _Talk(session)
    stack = Stack(root or DEFAULT_ROOT, targets=targets, say=talk.say, **options)
    ending = _Ending(stack)
    ending.install()
    try:
        words = _words(submit)
        stack.start()
        _announce(session, stack, talk, _submitted(stack, words, talk) if words else None)
        _follow(stack, targets, ending, talk, reload=not no_reload)
    except KeyboardInterrupt:
        pass
    finally:
        ending.begun.set()
        talk.say("stopping: workers hand back what they hold (Ctrl-C again: at once)")
        stack.stop()
        talk.say("stopped; nothing is left running")
    return 0


class _Ending:
    """Signals: the first asks for the ordered stop, the second hurries it; neither breaks into it."""

    def __init__(self, stack: Stack) -> None:
        self.begun = threading.Event()
        self._signalled = False
        self._stack = stack

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # It runs between two bytecodes of the main thread, which may be inside `begun.wait`, with its lock: no Event here.
        if self._signalled or self.begun.is_set():
            self._stack.hurry()
            return
        self._signalled = True
        raise KeyboardInterrupt


class _Talk:
    """Lines on stderr, from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        if self._session.quiet:
            return
        with self._lock:
            sys.stderr.write(for_people(line) + "\n")
            sys.stderr.flush()


def _words(submit: str | None) -> list[str]:
    """What is to be submitted, as words; raises Unprocessable before anything is started."""
    import shlex

    from stanchion.cli import inputs
    from stanchion.errors import Unprocessable

    try:
        words = shlex.split(submit or "")
    except ValueError as error:
        raise Unprocessable("E-CLI-01", f"--submit can't be read: {error}", fix="quote it as on a shell") from None
    inputs.parse(words[1:])
    return words


def _submitted(stack: Stack, words: list[str], talk: _Talk) -> str | None:
    """Submit the first task; a stack that is up does not end over a task that is refused."""
    from stanchion.cli import inputs
    from stanchion.errors import StanchionError
    from stanchion.sdk.client import Client

    try:
        with Client(stack.api_url, stack.api_key) as client:
            return client.submit(words[0], inputs.parse(words[1:])).id
    except StanchionError as error:
        talk.say(f"{words[0]} was not submitted: {error.code} {error.what}")
        return None


def _announce(session: Session, stack: Stack, talk: _Talk, task_id: str | None) -> None:
    data = {"v": 1, "api_url": stack.api_url, "page_url": stack.page_url, "root": str(stack.root), "task_id": task_id}
    if session.machine:
        sys.stdout.write(json.dumps(data) + "\n")
        sys.stdout.flush()
    talk.say(f"API   {stack.api_url}   (key in {stack.root / 'dev-key'}; the command line finds both)")
    talk.say(f"logs  {stack.logs}")
    talk.say("Ctrl-C stops everything")
    talk.say(f"dashboard  {stack.page_url}/" + (f"tasks/{task_id}" if task_id else ""))


def _follow(stack: Stack, targets: tuple[str, ...], ending: _Ending, talk: _Talk, *, reload: bool) -> None:
    from stanchion.cli.code_watcher import CodeWatcher
    from stanchion.cli.log_tailer import LogTailer

    tailer = LogTailer(stack.logs, talk.say)
    tailer.start()
    watcher = CodeWatcher(targets, Path.cwd()) if reload and targets else None
    try:
        while not ending.begun.wait(_RELOAD_LOOK_SECONDS):
            if watcher is not None and (changed := watcher.changed()):
                talk.say(f"{changed[0].name} changed: workers restart")
                _reload(stack, talk)
    finally:
        tailer.stop()


def _reload(stack: Stack, talk: _Talk) -> None:
    from stanchion.errors import StanchionError

    try:
        stack.restart_workers()
        talk.say("workers run the new code")
    except StanchionError as error:
        # Broken code ends a worker at its start: it is tried again until the next save mends it.
        talk.say(f"workers did not come up: {error.what}; see {stack.logs}")
