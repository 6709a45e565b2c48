"""Logs: one line an event, no secret in it, and nothing that is logged can break its caller."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from stanchion.runtime import redaction
from stanchion.runtime.logging import bind, configure_logging, get_logger, is_configured, reset_logging
from stanchion.runtime.redaction import HIDDEN, redact, redact_text


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    level = logging.getLogger().level
    stream = io.StringIO()
    configure_logging(format="json", level="info", service="worker", instance="w-1", stream=stream)
    yield stream
    reset_logging()
    logging.getLogger().setLevel(level)
    for name in ("kafka", "uvicorn", "asyncio", "rq", "redis"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


class BadText:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


ENDLESS: dict[str, Any] = {}
ENDLESS["again"] = ENDLESS


class TestLines:
    def test_are_json_with_a_constant_event_name(self, out: io.StringIO) -> None:
        """Level, time, service and instance stand on each."""
        get_logger(part="a").info("service.ready", count=3)
        (line,) = lines(out)
        assert line.pop("time").endswith("Z")
        assert line == {
            "event": "service.ready",
            "level": "info",
            "service": "worker",
            "instance": "w-1",
            "part": "a",
            "count": 3,
        }

    def test_carry_what_was_bound(self, out: io.StringIO) -> None:
        """Within the block, and no longer."""
        log = get_logger()
        with bind(task="tsk_1"):
            log.info("step.leased")
        log.info("step.leased")
        assert [line.get("task") for line in lines(out)] == ["tsk_1", None]

    def test_below_the_level_are_not_written(self, out: io.StringIO) -> None:
        """Debug is for whoever asked for it."""
        get_logger().debug("lease.renewed")
        assert lines(out) == []

    def test_of_a_library_are_led_in(self, out: io.StringIO) -> None:
        """One stream, one form; its passwords are hidden too."""
        logging.getLogger("some.library").warning("can't reach %s", "postgresql://u:hunter2@db/x")
        (line,) = lines(out)
        assert (line["event"], line["library"], line["level"]) == ("foreign.log", "some.library", "warning")
        assert "hunter2" not in str(line)

    def test_hold_the_traceback_of_an_error_without_its_secrets(self, out: io.StringIO) -> None:
        """An exception's text is where connection strings end up."""
        try:
            raise ValueError("no route to redis://:hunter2@cache:6379/0")
        except ValueError:
            get_logger().error("loop.error", exc_info=True)
        (line,) = lines(out)
        assert "ValueError" in line["exception"]
        assert "hunter2" not in str(line)

    @pytest.mark.parametrize(
        "value",
        [
            BadText(),
            ENDLESS,
            object(),
            2**80,
            float("nan"),
            "\ud800",
            b"\xff" * 10,
            {BadText: 1},
            {1: {2: 3}},
            "x" * 10_000_000,
            [[]] * 10_000,
            iter([1]),
            io.StringIO("text"),
            structlog,
            {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}},
        ],
        ids=[
            "bad text",
            "endless",
            "object",
            "large",
            "nan",
            "surrogate",
            "bytes",
            "type as key",
            "number as key",
            "long",
            "wide",
            "iterator",
            "stream",
            "module",
            "deep",
        ],
    )
    def test_survive_whatever_is_logged(self, out: io.StringIO, value: Any) -> None:
        """Every line stays one line of JSON of bounded size."""
        get_logger().info("service.ready", value=value)
        (line,) = lines(out)
        assert line["event"] == "service.ready"
        assert len(out.getvalue()) < 20_000

    def test_do_not_read_streams_or_generators(self, out: io.StringIO) -> None:
        """A log line must not eat the data of the step."""
        stream, numbers = io.StringIO("text"), iter(range(3))
        get_logger().info("service.ready", stream=stream, numbers=numbers)
        assert (stream.read(), list(numbers)) == ("text", [0, 1, 2])

    def test_a_reader_that_went_away_does_not_stop_the_work(self) -> None:
        """A closed pipe is not the step's fault."""

        class Closed(io.StringIO):
            def write(self, _text: str) -> int:
                raise BrokenPipeError

        try:
            configure_logging(format="json", stream=Closed())
            get_logger().info("service.ready")
        finally:
            reset_logging()


class TestUnconfigured:
    def test_only_warnings_are_written_and_to_stderr(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The stdout of a command line, or of a program that imports us, is for data."""
        log = get_logger()
        log.info("service.ready")
        log.warning("bus.broker_away", why="postgresql://u:hunter2@db/x")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "bus.broker_away" in captured.err
        assert "service.ready" not in captured.err
        assert "hunter2" not in captured.err

    def test_the_users_own_structlog_stays_as_it_is(self) -> None:
        """And ours does not follow it."""
        configure_logging(format="json", stream=io.StringIO())
        assert is_configured()
        assert not structlog.is_configured()
        reset_logging()
        assert not is_configured()

    def test_a_logger_made_before_sees_what_is_configured_later(self) -> None:
        """Modules make theirs while they are imported."""
        log, stream = get_logger(part="a"), io.StringIO()
        configure_logging(format="json", level="debug", stream=stream)
        log.bind(x=1).debug("lease.renewed")
        reset_logging()
        assert json.loads(stream.getvalue())["x"] == 1


class TestRedaction:
    @pytest.mark.parametrize(
        "text",
        [
            "postgresql://user:hunter2@db:5432/x?sslmode=require",
            "postgresql://user:hun/ter2@db/x",
            "redis://:hunter2@cache/0",
            "amqp://a:hunter2@b,amqp://c:hunter2@d",
            "host=db password=hunter2 user=x",
            "host=db password='hunter2 and more'",
            '{"password": "hunter2"}',
            "api_key=hunter2",
            "client_secret: hunter2",
            "token=hunter2&x=1",
            "Authorization: Bearer hunter2hunter2",
        ],
    )
    def test_hides_passwords_in_texts(self, text: str) -> None:
        """In every form in which connection strings and headers are written."""
        assert "hunter2" not in redact_text(text)
        assert HIDDEN in redact_text(text)

    @pytest.mark.parametrize(
        "text",
        ["http://host:80/path", "token 41, current 42", "max_tokens=5", "the password was wrong", "a@b.c", "12:30"],
    )
    def test_leaves_the_rest_alone(self, text: str) -> None:
        """A log that hides everything tells nothing."""
        assert redact_text(text) == text

    @pytest.mark.parametrize(
        "key",
        [
            "password",
            "db_password",
            "PASSWORD",
            "secret",
            "client_secret",
            "api_key",
            "apikey",
            "X-Api-Key",
            "token",
            "access_token",
            "authorization",
            "Cookie",
            "set-cookie",
            "private_key",
            "signature",
            "credentials",
            "pwd",
        ],
    )
    def test_hides_marked_keys_at_any_depth(self, key: str) -> None:
        """By the name of the field, whatever it holds."""
        assert redact({"a": [{key: "hunter2", "b": {key: ["hunter2"]}}]}) == {"a": [{key: HIDDEN, "b": {key: HIDDEN}}]}

    @pytest.mark.parametrize("key", ["tokens", "max_tokens", "key", "idempotency_key", "passenger", "fence", "keyid"])
    def test_shows_others(self, key: str) -> None:
        """Words that only sound alike stay."""
        assert redact({key: 1}) == {key: 1}

    def test_is_bounded_in_depth_and_width(self) -> None:
        """Whatever is given, what comes out is small."""
        assert redact(list(range(1_000)))[redaction.ITEMS :] == ["... (1,000 items)"]
        assert redact({str(n): n for n in range(1_000)})["..."] == "1,000 keys"
        assert len(redact_text("a" * 100_000)) < redaction.CHARACTERS + 100

    def test_a_long_text_keeps_its_end(self) -> None:
        """Of a traceback the last line says most."""
        assert redact_text("a" * 100_000 + "ValueError: the reason").endswith("ValueError: the reason")

    @pytest.mark.parametrize(
        "value", [BadText(), ENDLESS, {BadText(): 1}, [BadText()]], ids=["text", "endless", "key", "item"]
    )
    def test_never_raises(self, value: Any) -> None:
        """Not even for an object whose text fails."""
        redact(value)
