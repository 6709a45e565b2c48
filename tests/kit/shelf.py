"""Artifacts worked by hand: who begins, puts, flips, deletes and sweeps is the test's to say."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from kit.engine import Engine, Worker
from stanchion.authority.artifact_flips import stored
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.held_artifacts import HeldArtifacts
from stanchion.authority.leases import Lease
from stanchion.authority.objects import Objects
from stanchion.authority.retention import Retention
from stanchion.authority.sweeping import Sweeping
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import MAINTENANCE
from stanchion.objects import ObjectStore, Stored

FUTURE = datetime(9999, 1, 1, tzinfo=UTC)
NOW = timedelta(0)
DAY = timedelta(days=1)


class Shelf:
    """One tenant's artifacts, with a store in a folder, or where a URL says."""

    def __init__(self, engine: Engine, place: Path | str, url: str, grace: timedelta = NOW) -> None:
        self.engine = engine
        self.url = place if isinstance(place, str) else place.as_uri()
        self.objects = Objects(self.url)
        self.maintenance = Database(login_url(url, MAINTENANCE), name="test sweeper")
        self.people = Artifacts(engine.service)
        self.sweeping = Sweeping(self.maintenance, self.objects, grace)
        self.retention = Retention(self.maintenance)

    def close(self) -> None:
        self.maintenance.close()
        self.objects.close()

    @property
    def store(self) -> ObjectStore:
        return self.objects.of(self.engine.tenant)

    def held(self, worker: Worker) -> HeldArtifacts:
        """What this worker may do under its leases."""
        return HeldArtifacts(worker.leases.database, worker.leases.worker_id)

    def put(self, data: bytes) -> Stored:
        """Content into the store, named by no row."""
        return stored(self.store, [data])

    def made(self, worker: Worker, lease: Lease, data: bytes, name: str = "report") -> UUID:
        """A version under a lease, the whole way."""
        version = self.held(worker).begin(lease, name, "text/plain", [])
        assert self.held(worker).flip(lease, version, self.put(data)).outcome == "available"
        return version

    def uploaded(self, task_id: UUID, data: bytes, name: str = "report", made_from: Any = ()) -> UUID:
        """A version by a person, the whole way."""
        row = self.people.upload(
            self.engine.tenant,
            task_id,
            name,
            lambda: self.put(data),
            media_type="text/plain",
            made_from=made_from,
            actor="key:ann",
        )
        found: UUID = row["version_id"]
        return found

    def begun(self, task_id: UUID, name: str = "report") -> UUID:
        """A person's version that waits for its content."""
        return self.engine.service.call(
            "begin_artifact",
            "SELECT stanchion.begin_upload(%s, %s, %s, 'text/plain', '{}', 'key:ann')",
            (self.engine.tenant, task_id, name),
        )[0][0]  # type: ignore[no-any-return]  # a uuid

    def flipped(self, version: UUID, content: Stored) -> tuple[str, int | None]:
        """What becomes of flipping it."""
        return self.engine.service.call(
            "flip_artifact",
            "SELECT * FROM stanchion.flip_upload(%s, %s, %s, %s)",
            (self.engine.tenant, version, content.sha256, content.size),
        )[0]  # type: ignore[return-value]  # a text and a number

    def states(self) -> dict[str, int]:
        """How many versions are in each state."""
        return dict(self.engine.all("SELECT state, count(*) FROM stanchion.artifact_version GROUP BY 1"))

    def sweep(self) -> tuple[int, int]:
        """One whole sweep; (removals asked for, objects removed)."""
        self.sweeping.abandon(1_000)
        asked, tenant = 0, UUID(int=0)
        while (found := self.sweeping.next_tenant(tenant)) is not None:
            after: bytes | None = None
            while True:
                after, more = self.sweeping.look(found, after, 3)
                asked += more
                if after is None:
                    break
            tenant = found
        return asked, self.sweeping.remove(1_000)

    def objects_there(self) -> set[bytes]:
        """The names of all objects of the tenant."""
        return {one.sha256 for one in self.store.list(FUTURE)}

    def check(self) -> None:
        """Every available version has its content."""
        for sha256, size in self.engine.all(
            "SELECT sha256, size FROM stanchion.artifact_version WHERE state = 'available' AND tenant_id = %s",
            self.engine.tenant,
        ):
            assert self.store.stat(sha256) == size, f"{sha256.hex()} is available and not there"


def named(data: bytes) -> bytes:
    """The name of content."""
    return hashlib.sha256(data).digest()
