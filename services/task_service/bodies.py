"""Bodies of requests beside the commands of the contracts, and their place in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, SkipValidation, StringConstraints

from stanchion.contracts import limits
from stanchion.contracts.commands import Key, Reason, SubmitTask
from stanchion.contracts.message import Amounts, Message, Moment, Name

Value = SkipValidation[JsonValue]  # the whole body has been through `payload.parse`

BODY_MODELS: dict[str, type[Message]] = {}
"""The models that routes name; `openapi.py` puts their schemas into the document."""

GivenReason = Annotated[str, StringConstraints(min_length=1, max_length=limits.REASON_CHARACTERS)]


class Body(Message):
    """Base: unknown fields are refused, since a misspelt one must not pass as one that was left out."""

    model_config = ConfigDict(extra="forbid")


class BulkBody(Body):
    """Tasks to submit together."""

    tasks: Annotated[list[SubmitTask], Field(max_length=1_000)]


class CancelBody(Body):
    """Why a task is cancelled."""

    reason: Reason = ""


class ReasonBody(Body):
    """Why something is asked for."""

    reason: Reason = ""


class RetryBody(ReasonBody):
    """Why, and what the task may spend from now on, by unit: in all of its runs, what they have spent included."""

    budget: Amounts | None = None


class OpenBody(Body):
    """Why a barrier is opened without some of its children."""

    reason: GivenReason


class PauseQueueBody(Body):
    """Why a queue is paused: everybody who waits for it is shown that."""

    reason: GivenReason


class NotDoneBody(Body):
    """What a person says about an operation of unknown fate: why, and by what it is proven."""

    reason: GivenReason
    proof: GivenReason


class DoneBody(NotDoneBody):
    """The same, with the receipt where there is one."""

    receipt: Value = None


class KeyBody(Body):
    """A key to be made: rights by name, by a role, or both."""

    name: Name
    scopes: Annotated[tuple[str, ...], Field(max_length=50)] = ()
    role: str | None = None
    expires_at: Moment | None = None


class SigningKeyBody(Body):
    """The public half (32 bytes in base64) of an Ed25519 key that signs Kafka commands."""

    key_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
    public_key: Annotated[str, StringConstraints(max_length=64)]
    scopes: Annotated[tuple[str, ...], Field(max_length=50)] = ("task.submit", "task.cancel")


class TenantBody(Body):
    """A tenant to be made."""

    name: str


class RedriveBody(Body):
    """`again` sends a letter once more that was sent again before."""

    again: Annotated[bool, Field(strict=True)] = False


class BulkRedriveBody(Body):
    """Which parked messages to send again; what is left out means any. The same `key` is the same job."""

    topic: Name | None = None
    code: Name | None = None
    before: Moment | None = None
    rate: Annotated[int, Field(strict=True, ge=1, le=limits.REDRIVE_RATE_MAX)] = 50
    key: Key | None = None


class ReopenBody(Body):
    """Which failed steps to reopen: by their ids, or all failed ones of a task's node up to `limit`.

    `input` is the item of each of them that is a child; any other gets the arguments that it names.
    """

    reason: GivenReason
    steps: Annotated[tuple[str, ...], Field(max_length=limits.PAGE_ROWS_MAX)] | None = None
    task_id: str | None = None
    node: Name | None = None
    state: Literal["failed"] = "failed"
    limit: Annotated[int, Field(strict=True, ge=1, le=limits.PAGE_ROWS_MAX)] = limits.PAGE_ROWS
    input: Value = None


def body_schema(route: dict[str, Any], model: type[Message], *, required: bool = True) -> dict[str, Any]:
    """The arguments of a route, with the body that it takes; the body itself is read strictly, by hand."""
    BODY_MODELS[model.__name__] = model
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    extra = route.get("openapi_extra", {}) | {"requestBody": {"required": required, "content": content}}
    return route | {"openapi_extra": extra}
