"""Effects in an object store: an artifact, or what is given, published once under a name in a bucket or a folder.

    public = Store("s3://public/reports?endpoint=https://s3.example")
    publish = public.operation("report.publish")

    receipt = await ctx.op(publish, Publication("2030/summary.pdf", artifact=pages), key="summary")

The put is conditional: it never overwrites. Name and content together are the effect, so it does no harm to put the same
again, or that an old request lands late; and whether it was done is seen by reading what stands under the name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from stanchion.authority.objects import NO_STORE
from stanchion.contracts import payload
from stanchion.errors import NotFound, Rejected, StanchionError, Unavailable, Unprocessable
from stanchion.objects import ObjectStore, Stored, open_store
from stanchion.objects.feed import cut_to
from stanchion.objects.reader import CHUNK_BYTES
from stanchion.runtime.clock import utc_now
from stanchion.workflow.artifact import Artifact
from stanchion.workflow.durations import Duration
from stanchion.workflow.operation import Call, Effect, NotSent, Operation, Refused

__all__ = ["Publication", "Published", "Store", "TakenBack"]

T = TypeVar("T")

KEEPS: Final = "3650d"
"""As long as a duration may be: a name that is taken stays taken, whenever the same is sent again."""
LEFT_BEHIND: Final = timedelta(days=7)
"""What uploads left behind that are older is removed when a process opens the store: nobody else sweeps there."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published: one of an artifact, a text, a JSON value, or bytes in base64 (`Publication.of_bytes`).

    `name` is parts of letters, digits, '.', '_' and '-' between slashes; `{key}` in it becomes the operation's key.
    Raises Rejected E-OP-04 unless exactly one content is given.
    """

    name: str
    artifact: Artifact | None = None
    text: str | None = None
    value: Any = None
    base64: str | None = None

    def __post_init__(self) -> None:
        given = [one for one in (self.artifact, self.text, self.value, self.base64) if one is not None]
        if len(given) != 1:
            raise Rejected(
                "E-OP-04",
                f"a publication has {len(given)} contents",
                where=f"{self.name!r:.80}",
                fix="give one of artifact=, text=, value= and base64=",
            )

    @classmethod
    def of_bytes(cls, name: str, data: bytes) -> Publication:
        """Bytes that travel with the payload: for a few hundred KiB; what is larger should be an artifact."""
        return cls(name, base64=base64.b64encode(data).decode("ascii"))


@dataclass(frozen=True, slots=True)
class Published:
    """The receipt: this content stands under this name."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The receipt of undoing: the content stands under the name no more. `removed` is False when it had gone before."""

    name: str
    removed: bool


class Store:
    """A bucket or folder outside, named by a URL as `STANCHION_OBJECTS_URL` is; the credentials are the AWS_* variables'.

    `artifacts` is the URL of the store that artifacts are read from, STANCHION_OBJECTS_URL by default.
    """

    def __init__(self, url: str, *, artifacts: str | None = None) -> None:
        self._url = url
        self._artifacts_url = artifacts
        self._lock = threading.Lock()
        self._target: ObjectStore | None = None
        self._artifacts: ObjectStore | None = None

    def operation(
        self, kind: str, *, timeout: Duration = "10m", needs_approval: bool = False
    ) -> Operation[Publication, Published]:
        """The operation that publishes; `<kind>_undo` takes back, as long as the same content stands under the name."""
        undo = Operation(
            f"{kind}_undo", do=self._take_back, check=self._gone, keeps_key=KEEPS, timeout=timeout, reach="irreversible"
        )
        return Operation(
            kind,
            do=self._publish,
            check=self._find,
            undo=undo,
            keeps_key=KEEPS,
            timeout=timeout,
            reach="reversible",
            needs_approval=needs_approval,
        )

    def close(self) -> None:
        """Give back connections; it opens new ones when it is used again."""
        with self._lock:
            for store in (self._target, self._artifacts):
                if store is not None:
                    store.close()
            self._target = self._artifacts = None

    # --- what its operations do ---

    def _publish(self, call: Call, what: Publication) -> Published:
        name, wanted = _named(what, call), _wanted(what)
        store = self._opened()
        found = _before(lambda: store.published(name))
        if found is None:
            found = wanted if self._put(store, name, call, what) else store.published(name)
        if found is None:
            raise Unavailable("E-OP-10", f"{name} was taken, and is not there", fix="see who removes names there")
        if found != wanted:
            raise Refused(
                f"{name} is taken by another content",
                why=f"SHA-256 {found.sha256.hex()[:16]}…, {found.size:,} bytes stand there, and nothing is overwritten",
            )
        return Published(name, found.sha256.hex(), found.size)

    def _put(self, store: ObjectStore, name: str, call: Call, what: Publication) -> bool:
        """Put it if the name is free. What a store says while it is put proves nothing, unless it rejects the name."""
        try:
            return store.put_if_absent(name, self._chunks(call, what))
        except _Unread as error:  # nothing becomes visible of what does not come to its end
            why = error.__cause__
            if isinstance(why, NotFound):
                raise Refused(f"the content of {name} is not there any more", why=str(why)) from why
            raise NotSent(f"the content of {name} can't be read: {why}") from why
        except Rejected as error:
            raise Refused(error.what, why=error.why) from error

    def _find(self, call: Call, what: Publication) -> Published | None:
        name = _named(what, call)
        found = self._opened().published(name)
        return Published(name, found.sha256.hex(), found.size) if found == _wanted(what) and found else None

    def _take_back(self, _call: Call, effect: Effect) -> TakenBack:
        store = self._opened()
        name, stands = _before(lambda: _stands(store, effect))
        if stands:
            store.remove_published(name)
        return TakenBack(name, removed=stands)

    def _gone(self, _call: Call, effect: Effect) -> TakenBack | None:
        name, stands = _stands(self._opened(), effect)
        return None if stands else TakenBack(name, removed=True)

    # --- means ---

    def _chunks(self, call: Call, what: Publication) -> Iterator[bytes]:
        """The content, a chunk at a time; of an artifact what has the hash that it is named by."""
        if what.artifact is None:
            yield from cut_to(_inline(what), CHUNK_BYTES)
            return
        try:
            with self._source().within(call.tenant_id).open_verified(_wanted(what).sha256) as reader:
                yield from reader
        except StanchionError as error:
            raise _Unread from error

    def _opened(self) -> ObjectStore:
        """The store to publish in; NotSent while it can't be opened."""
        with self._lock:
            if self._target is None:
                self._target = _before(lambda: open_store(self._url), rejected=NotSent)
                with suppress(StanchionError):  # who may only put and get may not list
                    self._target.sweep_temporary(utc_now() - LEFT_BEHIND)
            return self._target

    def _source(self) -> ObjectStore:
        with self._lock:
            if self._artifacts is None:
                url = self._artifacts_url or os.environ.get("STANCHION_OBJECTS_URL")
                if url is None:
                    raise Unprocessable(
                        NO_STORE, "there is no store to read artifacts from", where="STANCHION_OBJECTS_URL"
                    )
                self._artifacts = open_store(url)
            return self._artifacts


class _Unread(Exception):  # noqa: N818 - carries what the source said through the store that was reading it
    """The content could not be read; `__cause__` says why."""


def _before(call: Callable[[], T], rejected: type[Exception] = Refused) -> T:
    """What a store says before anything was put: it is away, so nothing was sent; or it rejects the name for good."""
    try:
        return call()
    except Rejected as error:
        raise rejected(str(error)) from error
    except StanchionError as error:
        raise NotSent(str(error)) from error


def _stands(store: ObjectStore, effect: Effect) -> tuple[str, bool]:
    """The name, and whether what was published still stands under it: another content is not ours to remove."""
    name, size = str(effect.receipt["name"]), int(effect.receipt["size"])
    return name, store.published(name) == Stored(bytes.fromhex(effect.receipt["sha256"]), size)


def _named(what: Publication, call: Call) -> str:
    return what.name.replace("{key}", call.key)


def _wanted(what: Publication) -> Stored:
    """Hash and size of the content; Refused for a reference that can't be one."""
    if what.artifact is None:
        data = _inline(what)
        return Stored(hashlib.sha256(data).digest(), len(data))
    if not _SHA256.fullmatch(what.artifact.sha256):
        raise Refused(f"{what.artifact.id!r:.80} is no artifact", why="its sha256 is not 64 hexadecimal digits")
    return Stored(bytes.fromhex(what.artifact.sha256), what.artifact.size)


def _inline(what: Publication) -> bytes:
    if what.text is not None:
        return what.text.encode()
    if what.base64 is None:
        return payload.canonical(what.value)  # in any process the same bytes, whatever became of the order of its keys
    try:
        return base64.b64decode(what.base64, validate=True)
    except binascii.Error as error:
        raise Refused(f"the content of {what.name!r:.80} is no base64", why=str(error)) from error
