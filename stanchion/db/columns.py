"""What tables are made of: the metadata with its naming, storage settings, and columns that many have."""

from __future__ import annotations

from sqlalchemy import Column, DateTime, MetaData, Uuid, text
from sqlalchemy.types import UserDefinedType


class Xid8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


metadata = MetaData(
    schema="stanchion",
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    },
)
NOW = text("stanchion.clock()")
HOT = {"fillfactor": "60", "autovacuum_vacuum_scale_factor": "0.02", "autovacuum_analyze_scale_factor": "0.05"}
CHURN = {"autovacuum_vacuum_scale_factor": "0.0", "autovacuum_vacuum_threshold": "5000"}
"""For tables whose rows come and go: vacuum by count, however large they once were."""


def tenant_id() -> Column[object]:
    return Column("tenant_id", Uuid, nullable=False)


def at(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=None if nullable else NOW)
