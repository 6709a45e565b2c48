"""A store's whole setting in one string, without any secret in it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from stanchion.errors import Unprocessable
from stanchion.objects import names
from stanchion.objects.folder import FolderStore
from stanchion.objects.store import ObjectStore

DEFAULT_REGION = "us-east-1"
"""The region that servers other than AWS's take for their own."""


def open_store(url: str) -> ObjectStore:
    """The store that a URL names: `file:///abs/path` or `s3://bucket/prefix?endpoint=https://host:port&region=NAME`.

    The credentials for S3 come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, never from the URL
    and from nowhere else. Open a store in the process that uses it: a connection does not survive a fork.

    Raises Unprocessable E-OBJ-07 for another URL, E-OBJ-08 without credentials, Unavailable E-OBJ-05 where the folder
    can't be made. Whether a bucket is there shows with the first call.
    """
    try:
        parsed = urlsplit(url)
        user, _port = parsed.username or parsed.password, parsed.port
    except ValueError:
        raise _refused("it can't be read") from None
    if user is not None:
        raise _refused("it holds a user or a password")  # and is not repeated here
    if parsed.fragment or any(ord(character) < 0x21 for character in url):
        raise _refused("it holds a fragment, blanks or control characters")
    if parsed.scheme == "file":
        return _folder(parsed)
    if parsed.scheme == "s3":
        return _bucket(parsed)
    raise _refused("it opens with neither file:// nor s3://")


def _folder(parsed: SplitResult) -> ObjectStore:
    path = unquote(parsed.path)
    if parsed.netloc not in ("", "localhost") or not path.startswith("/") or parsed.query:
        raise _refused("a folder is file:///absolute/path, with nothing after it")
    if ".." in path.split("/") or "\0" in path or not path.strip("/"):
        raise _refused("the folder is '/', or its path holds '..'")
    return FolderStore(Path(path))


def _bucket(parsed: SplitResult) -> ObjectStore:
    from stanchion.objects.s3 import S3Store  # here: botocore takes a while to import
    from stanchion.objects.s3_client import S3Client

    options = _options(parsed.query)
    endpoint, region = options.get("endpoint"), options.get("region", DEFAULT_REGION)
    bucket, prefix = parsed.netloc, parsed.path.strip("/")
    for what, name in (("bucket", bucket), ("prefix", prefix or "none")):
        if not names.is_name(name):
            raise _refused(f"its {what} is missing, or has other parts than letters, digits, '.', '_' and '-'")
    if endpoint is not None:
        _check_endpoint(endpoint)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        if not os.environ.get(variable):
            raise Unprocessable("E-OBJ-08", f"{variable} is not set", where=variable)
    return S3Store(S3Client(bucket, endpoint=endpoint, region=region), prefix)


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise _refused("what follows '?' can't be read") from None
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= {"endpoint", "region"} or not all(options.values()):
        raise _refused("only endpoint= and region= may follow '?', once each, with a value")
    return options


def _check_endpoint(endpoint: str) -> None:
    try:
        parsed = urlsplit(endpoint)
        _port = parsed.port
    except ValueError:
        raise _refused("the endpoint can't be read") from None
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise _refused("the endpoint is no http:// or https:// address")
    if parsed.username is not None or parsed.query or parsed.fragment or parsed.path not in ("", "/"):
        raise _refused("the endpoint holds more than a scheme, a host and a port")


def _refused(why: str) -> Unprocessable:
    # The URL itself is not shown: who puts a password into it by mistake should not find it in a log.
    return Unprocessable("E-OBJ-07", "the URL of the object store is refused", why=why)
