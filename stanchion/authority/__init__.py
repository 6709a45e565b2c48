"""Typed calls of the database's functions, one module an aggregate. PostgreSQL decides; this package asks."""

from . import codes as codes
