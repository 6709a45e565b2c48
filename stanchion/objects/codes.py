"""Codes of what can happen to stored bytes."""

from __future__ import annotations

from stanchion.errors import register_code

register_code(
    "E-OBJ-01",
    "object not found",
    status=404,
    meaning="The store holds no object of this hash, or nothing is published under this name.",
    fix="Check the store's URL: it may be another store than the one that was written to.",
)
register_code(
    "E-OBJ-02",
    "content is not what was announced",
    status=422,
    meaning="The bytes that came do not have the SHA-256 or the size that their sender named; nothing was stored.",
    fix="Send the content again; if it stays so, compute hash and size from the bytes that are sent.",
)
register_code(
    "E-OBJ-03",
    "object damaged",
    status=500,
    meaning="A stored object does not have the content that it is named by.",
    fix="Put the same content again, which replaces it, or restore it from a backup.",
)
register_code(
    "E-OBJ-04",
    "object store away",
    status=503,
    meaning="The store does not answer, is out of space, or broke off while it was read or written.",
    fix="Wait; check the disk or the S3 server if it lasts.",
)
register_code(
    "E-OBJ-05",
    "object store refuses",
    status=503,
    meaning="The store refuses the request: rights, credentials, or a folder or bucket that does not exist.",
    fix="Check the store's URL, the owner of the folder, or the AWS_* variables and the policy of the bucket.",
)
register_code(
    "E-OBJ-06",
    "bad name of an object",
    status=422,
    meaning="A hash is not 32 bytes, or a published name has other parts than letters, digits, '.', '_' and '-'.",
    fix="Use names such as reports/2030/summary.pdf.",
)
register_code(
    "E-OBJ-07",
    "bad store URL",
    status=422,
    meaning="The URL of an object store is neither file:///path nor s3://bucket/prefix?endpoint=...&region=....",
    fix="Correct the URL; credentials belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
)
register_code(
    "E-OBJ-08",
    "no credentials for the store",
    status=422,
    meaning="AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set, and nothing else is asked for credentials.",
    fix="Set both variables for this process, and AWS_SESSION_TOKEN where the credentials are temporary.",
)
register_code(
    "E-OBJ-09",
    "name is a folder",
    status=409,
    meaning="In a folder store a published name can't be the beginning of another, as reports is of reports/summary, nor "
    "lead through a link.",
    fix="Publish under another name.",
)
