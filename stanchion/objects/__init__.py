"""The bytes of artifacts: objects named by the SHA-256 of their content, in a folder or behind the S3 API.

`open_store(url)` gives an `ObjectStore`. A store knows bytes and nothing else: who owns an object, who may read it and
when it may go is decided by PostgreSQL. An object is put before a row names it, and deleted after no row does.
"""

from __future__ import annotations

from stanchion.objects import codes as _codes  # noqa: F401 - registers the codes that a store raises
from stanchion.objects.reader import Reader
from stanchion.objects.store import Listed, ObjectStore, Stored
from stanchion.objects.url import open_store

__all__ = ["Listed", "ObjectStore", "Reader", "Stored", "open_store"]
