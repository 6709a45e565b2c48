"""topics.md and messages.md: what travels over Kafka, with a golden message of every type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from stanchion.contracts import commands, events, topics
from stanchion.contracts.message import Message

from .markdown import code, fence, flow, page, section, sentence, table

_DAY_MS = 24 * 3600 * 1000
_KINDS = {"command": commands.COMMANDS, "reply": commands.REPLIES, "event": events.EVENTS}

_TOPICS = """
Each topic has a twin `<topic>.dlq` for what could not be read: key, value and headers as they came, and headers
`dlq_topic`, `dlq_partition`, `dlq_offset`, `dlq_timestamp`, `dlq_code`, `dlq_reason`, `dlq_service` and `dlq_time`.
"""
_MESSAGES = """
CloudEvents 1.0 in Kafka's binary mode: what a message is about stands in headers, its value is JSON. Readers ignore
headers and fields that they don't know, except for the two commands from outside, `SubmitTask` and `CancelTask`: a
misspelt field there is refused. Bodies are I-JSON (RFC 7493); ids are UUIDs. v1 may gain optional fields; anything else
is a new topic version.
"""
_REPLIES = f"On `{topics.TASK_SERVICE_REPLIES}`, with the correlation id and the key of the command."
_EVENTS = f"""
On `{topics.EVENTS}`, key = run id. The types marked *in the event log only* are not published: they stand in
PostgreSQL, and a task's event stream shows them.
"""
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}

_HEADERS = (
    ("ce_specversion", "yes", "`1.0`"),
    ("ce_id", "yes", "the message's id, a UUID; a reader that has seen it drops the message"),
    ("ce_type", "yes", "one of the types below"),
    ("ce_source", "yes", "who wrote it: any text of up to 200 characters"),
    ("ce_time", "yes", "when it was written, RFC 3339 with an offset; decides nothing"),
    ("ce_tenant", "yes", "the tenant's name"),
    ("ce_correlationid", "", "the conversation it belongs to, a UUID; a reply carries that of its command"),
    ("ce_causationid", "", "the message that led to it, a UUID"),
    ("ce_sequence", "", "the event's number within its run; a gap is read from the event log"),
    ("ce_schemaversion", "", "of the body; 1 without it"),
    ("traceparent", "", "W3C trace context; one that can't be read is ignored"),
    ("content-type", "", "`application/json`; another one is refused"),
    ("ce_keyid, ce_signature", "signed commands", "the name of the key, and the Ed25519 signature in base64"),
)


def topics_page() -> str:
    """Every topic, who reads it and what it is created with."""
    worker = topics.worker_specs(topics.DEFAULT_QUEUE)[0]
    specs = [*(s for s in topics.ALL if s.kind != "dead letters"), worker]
    rows = [
        (
            code(_shown(spec.name)),
            spec.kind,
            spec.reader,
            spec.key,
            f"{spec.retention_ms // _DAY_MS} days",
        )
        for spec in specs
    ]
    dead = topics.worker_specs(topics.DEFAULT_QUEUE)[1]
    twin, kept = code("<topic>" + topics.DEAD_LETTER_SUFFIX), f"{dead.retention_ms // _DAY_MS} days"
    rows.append((twin, dead.kind, dead.reader, dead.key, kept))
    sizes = f"""
    {topics.PARTITIONS} partitions each ({topics.PARTITIONS_EMBEDDED} in the `dev` profile), the broker's own
    replication factor, `cleanup.policy=delete`. Queue names are `[a-z0-9-]`, 1 to 64 characters; a queue's topic is
    created with its first worker or its first offer.
    """
    return page("Topics", _TOPICS, table(("topic", "carries", "read by", "key", "kept"), rows), flow(sizes))


def _shown(name: str) -> str:
    queue = topics.queue_of(name)
    return name if queue is None else name.replace(f".{queue}.", ".<queue>.")


def messages_page(golden: Path | None = None) -> str:
    """Every type of message; `golden` is the folder of the golden messages that the tests hold."""
    headers = section("Headers", table(("header", "required", "what it is"), ((code(n), r, t) for n, r, t in _HEADERS)))
    sent = published()
    blocks = [headers]
    for kind, title, about in (
        ("command", "Commands", ""),
        ("reply", "Replies", _REPLIES),
        ("event", "Events", _EVENTS),
    ):
        parts = [
            _type(kind, model, golden, None if kind != "event" else name in sent)
            for name, model in _KINDS[kind].items()
        ]
        blocks.append(section(title, flow(about), *parts))
    return page("Messages", _MESSAGES, *blocks)


def published() -> frozenset[str]:
    """The types that a database function leaves in the outbox for the events topic."""
    found: set[str] = set()
    for path in (files("stanchion.db") / "functions").iterdir():
        text = path.read_text(encoding="utf-8") if path.name.endswith(".sql") else ""
        # What becomes of a join is handed to `conclude`, which publishes it under the run's lock.
        found |= set(re.findall(r"(?:ROW\([\w.]+, 0, NULL|approval_news\(\w+), '(\w+)'", text))
        if f"'{topics.EVENTS}'" in text:
            after = text.partition(f"'{topics.EVENTS}'")[2]
            found |= set(re.findall(r"'((?:Task|Run|Step|Barrier)[A-Z][a-z]+)'", after.partition(";")[0]))
            if "'Task' || initcap" in after:
                found |= {"TaskCompleted", "TaskFailed", "TaskCancelled", "TaskRejected"}
    return frozenset(found & set(events.EVENTS))


def _type(kind: str, model: type[Message], golden: Path | None, sent: bool | None) -> str:
    topic = {
        "SubmitTask": topics.TASK_SERVICE_COMMANDS,
        "CancelTask": topics.TASK_SERVICE_COMMANDS,
        "ExecuteSteps": "stanchion.workers.<queue>.commands.v1",
        "PlanRun": topics.ORCHESTRATOR_COMMANDS,
    }.get(model.__name__)
    lines = [sentence(model.__doc__)]
    if topic:
        lines.append(f"Topic {code(topic)}.")
    if sent is False:
        lines.append("*In the event log only.*")
    fields = table(("field", "type", "required", "default"), _fields(model.model_json_schema()))
    example = ""
    path = None if golden is None else golden / f"{kind}.{model.__name__}.json"
    if path is not None and path.is_file():
        example = fence(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2), "json")
        example = f"<details><summary>A whole message</summary>\n\n{example}\n\n</details>"
    return section(model.__name__, " ".join(lines), fields, example, level=3)


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    required = set(schema.get("required", ()))
    return [
        (code(name), kind_of(kind), "yes" if name in required else "", _default(kind, name in required))
        for name, kind in schema.get("properties", {}).items()
    ]


def _default(kind: Mapping[str, Any], required: bool) -> str:
    if required or "default" not in kind or kind["default"] is None:
        return ""
    return code(json.dumps(kind["default"]))


def kind_of(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words, with its bounds."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return "any JSON" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(one) for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        most = f", at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"list of {kind_of(schema.get('items', {}))}{most}"
    plain = _WORDS.get(str(schema.get("type")), "any JSON")
    kind = {"uuid": "UUID", "date-time": "RFC 3339 time"}.get(str(schema.get("format")), plain)
    return kind + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if low is not None or high is not None:
        return f", {low if low is not None else ''} to {high if high is not None else ''}".rstrip()
    if most is not None:
        return f", {least or 0} to {most:,} characters"
    return ""
