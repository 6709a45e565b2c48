"""Logs: structlog, one line an event, JSON on stdout and something readable on a terminal.

An event has a constant name (`telemetry.names.LogEvent`); what varies goes into fields. Ids are bound by context
variables (`bind`), which do not cross into other threads by themselves. Nothing marked as secret gets through, and no
object that is logged can make logging fail.

structlog's global configuration is left alone: it belongs to the program that imports us. Until `configure_logging` is
called, warnings go to stderr and nothing else is written, since the stdout of a command line is for data.
"""

from __future__ import annotations

import logging as stdlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from stanchion.runtime.redaction import redact, redact_text
from stanchion.telemetry.names import LogEvent

Format = Literal["auto", "json", "pretty"]
Level = Literal["debug", "info", "warning", "error", "critical"]

_LEVELS: dict[str, int] = {
    "debug": stdlib.DEBUG,
    "info": stdlib.INFO,
    "warning": stdlib.WARNING,
    "error": stdlib.ERROR,
    "critical": stdlib.CRITICAL,
}

# Libraries that talk a lot. Kafka's writes some ten errors a second while a broker is away; `bus.broker_away` says it.
_QUIET = {
    "kafka": "critical",
    "uvicorn": "warning",
    "asyncio": "warning",
    "rq": "warning",
    "redis": "warning",
    "httpx2": "warning",
}


class Log(Protocol):
    """A logger whose event names are checked by the type checker."""

    def debug(self, event: LogEvent, **fields: Any) -> Any:
        """For whoever looks into one case."""

    def info(self, event: LogEvent, **fields: Any) -> Any:
        """What an operator reads when all is well."""

    def warning(self, event: LogEvent, **fields: Any) -> Any:
        """Passes by itself, but somebody may want to know."""

    def error(self, event: LogEvent, **fields: Any) -> Any:
        """Somebody must look."""

    def critical(self, event: LogEvent, **fields: Any) -> Any:
        """The process ends."""

    def bind(self, **fields: Any) -> Log:
        """The same logger with fields on every line."""


def get_logger(**fields: Any) -> Log:
    """A logger, with `fields` on every line; cheap, and usable before `configure_logging`."""
    bare = structlog.wrap_logger(
        _OUT,
        processors=[_OUT.process],
        wrapper_class=structlog.make_filtering_bound_logger(stdlib.DEBUG),
        context_class=dict,
        cache_logger_on_first_use=False,
    )
    return cast("Log", bare.bind(**fields))


def configure_logging(
    *,
    format: Format = "auto",
    level: Level = "info",
    service: str = "",
    instance: str = "",
    stream: TextIO | None = None,
) -> None:
    """Set up logging for this process; what libraries log by the standard library is led into the same lines."""
    _OUT.configure(stream or sys.stdout, format, level, {"service": service, "instance": instance})
    _lead_in_libraries(level)


def is_configured() -> bool:
    """Whether `configure_logging` was called in this process."""
    return _OUT.configured


def reset_logging() -> None:
    """Back to how it was before `configure_logging`; for tests."""
    _OUT.reset()
    root = stdlib.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]


@contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Put fields on every line of this thread (or task) within the block."""
    with structlog.contextvars.bound_contextvars(**fields):
        yield


def _redacted(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return cast("EventDict", redact(dict(event)))


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    import orjson

    try:
        return orjson.dumps(event).decode()
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        return orjson.dumps({ascii(key)[1:-1]: _writable(value) for key, value in event.items()}).decode()


def _writable(value: Any) -> Any:
    import orjson

    try:
        orjson.dumps(value)
    except TypeError:
        return ascii(value)
    return value


class _Output:
    """Where all loggers of this package write, and how. What is configured later holds for loggers made before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.configured = False
        self._stream: TextIO | None = None  # stderr, looked up at each line: tests and shells exchange it
        self._least = stdlib.WARNING
        self._processors = _processors(pretty=True, colors=False, fixed={})

    def configure(self, stream: TextIO, form: Format, level: Level, fixed: dict[str, str]) -> None:
        terminal = stream.isatty()
        pretty = form == "pretty" or (form == "auto" and terminal)
        shown = {} if pretty else {key: value for key, value in fixed.items() if value}
        self._stream = stream
        self._least = _LEVELS[level]
        self._processors = _processors(pretty=pretty, colors=terminal, fixed=shown)
        self.configured = True

    def process(self, logger: WrappedLogger, method: str, event: EventDict) -> Any:
        """The one processor that structlog knows of; the real ones can change under it."""
        if _LEVELS.get(method, stdlib.INFO) < self._least:
            raise structlog.DropEvent
        result: Any = event
        for processor in self._processors:
            result = processor(logger, method, result)
        return result

    def msg(self, line: str) -> None:
        """Write a whole line. A reader that went away (a closed pipe) must not stop the work that is logged."""
        stream = self._stream or sys.stderr
        with self._lock, suppress(OSError, ValueError):
            stream.write(line + "\n")
            stream.flush()

    debug = info = warning = error = critical = msg


def _processors(*, pretty: bool, colors: bool, fixed: dict[str, str]) -> list[Processor]:
    def add_fixed(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**fixed, **event}

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        add_fixed,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,  # plain: the pretty tracebacks show local variables, and so secrets
        _redacted,
        structlog.dev.ConsoleRenderer(timestamp_key="time", colors=colors) if pretty else _json_line,
    ]


_OUT = _Output()


class _Bridge(stdlib.Handler):
    """Leads records of the standard library's logging into structlog."""

    def emit(self, record: stdlib.LogRecord) -> None:
        try:
            log = get_logger(library=record.name)
            method = {"WARNING": log.warning, "ERROR": log.error, "CRITICAL": log.critical, "DEBUG": log.debug}
            fields: dict[str, Any] = {"message": redact_text(record.getMessage())}
            if record.exc_info and record.exc_info[0] is not None:
                fields["exc_info"] = record.exc_info
            method.get(record.levelname, log.info)("foreign.log", **fields)
        except Exception as error:  # noqa: BLE001 - the standard library's own rule: a log line never breaks its caller
            sys.stderr.write(f"a log line of {record.name} was lost: {type(error).__name__}\n")


def _lead_in_libraries(level: Level) -> None:
    root = stdlib.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _Bridge):
            root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(max(_LEVELS[level], stdlib.INFO))
    for name, quiet in _QUIET.items():
        stdlib.getLogger(name).setLevel(stdlib.INFO if level == "debug" else max(_LEVELS[level], _LEVELS[quiet]))
