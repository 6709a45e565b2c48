"""The page on which a sign-in at a provider ends, and where it may go on to."""

from __future__ import annotations

from html import escape
from typing import Final

from stanchion.errors import Unprocessable, register_code

HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "referrer-policy": "no-referrer",
}

NOT_OURS: Final = register_code(
    "E-AUTH-08",
    "no path of this site",
    status=422,
    meaning="After a sign-in the browser goes on to a path of this site, and nowhere else.",
    fix="Send a path such as /tasks.",
)


def own_path(text: str) -> str:
    """A path of this site; raises Unprocessable E-AUTH-08 for whatever a browser might read as another one."""
    printable = all(33 <= ord(character) < 127 for character in text)
    if not (printable and text.startswith("/")) or text.startswith("//") or "\\" in text:
        raise Unprocessable(NOT_OURS, "this is no path of this site", where="query.return_to")
    return text


def going_on(path: str) -> str:
    """A page that goes on by itself, and by a link where it does not."""
    place = escape(path, quote=True)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f'<meta http-equiv="refresh" content="0; url={place}"><title>Signed in</title>'
        f'<p>You are signed in. <a href="{place}">Go on</a></p></html>'
    )
