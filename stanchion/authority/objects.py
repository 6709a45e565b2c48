"""The object store of this process, one part of it for each tenant; opened when it is first needed."""

from __future__ import annotations

import threading
from typing import Final
from uuid import UUID

from stanchion.errors import Unprocessable, register_code
from stanchion.objects import ObjectStore, open_store

NO_STORE: Final = register_code(
    "E-OBJ-10",
    "no object store is set",
    status=422,
    meaning="Artifacts, and values above 8 MiB, lie in an object store, and this process was not told where it is.",
    fix="Set STANCHION_OBJECTS_URL for all services, e.g. s3://bucket/prefix or file:///srv/stanchion.",
)


class Objects:
    """Stores by tenant, over one set of connections. Keys are per tenant: nobody learns what another one has."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self._store: ObjectStore | None = None
        self._parts: dict[UUID, ObjectStore] = {}
        self._lock = threading.Lock()

    @property
    def is_set(self) -> bool:
        """Whether there is a store at all."""
        return self.url is not None

    def of(self, tenant_id: UUID) -> ObjectStore:
        """The objects of a tenant; raises Unprocessable E-OBJ-10 without a store, Unavailable where it is away."""
        if self.url is None:
            raise Unprocessable(
                NO_STORE,
                "there is no object store to put it into, or to read it from",
                where="STANCHION_OBJECTS_URL",
                fix="set STANCHION_OBJECTS_URL for all services, e.g. s3://bucket/prefix or file:///srv/stanchion",
            )
        with self._lock:
            if self._store is None:
                self._store = open_store(self.url)
            if tenant_id not in self._parts:
                self._parts[tenant_id] = self._store.within(str(tenant_id))
            return self._parts[tenant_id]

    def close(self) -> None:
        """Give back connections; harmless to repeat."""
        with self._lock:
            store, self._store, self._parts = self._store, None, {}
        if store is not None:
            store.close()
