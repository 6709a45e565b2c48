"""One HTTP request to a place that somebody else chose: bounded in time and size, no redirects, no way to the inside.

The name is resolved once, every address is judged, and the connection goes to an address that was judged: a name that
points elsewhere a moment later changes nothing. One clock holds for all of it: a server that sends a byte now and then
is cut off like one that sends none.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from stanchion.errors import Rejected, Unavailable, Unprocessable, register_code
from stanchion.runtime.clock import Deadline

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BAD_URL: Final = register_code(
    "E-OUT-01",
    "address can't be called",
    status=422,
    meaning="It is no plain https address: no user or password, no fragment, at most 2,000 characters.",
    fix="Use https://host/path.",
)
INSIDE: Final = register_code(
    "E-OUT-02",
    "address is inside",
    status=422,
    meaning="The name stands for a private, link-local or otherwise special address, which strangers may not reach.",
    fix="Use a public address, or list its network in the setting that allows it.",
)
NO_ANSWER: Final = register_code(
    "E-OUT-03",
    "no answer",
    status=503,
    meaning="No connection could be made, or the answer did not come whole and in time.",
    fix="Check that the other side listens, and its certificate.",
)

_URL_CHARACTERS: Final = 2_000
_EMBEDDED: Final = (
    (ipaddress.ip_network("64:ff9b::/96"), 0),  # NAT64
    (ipaddress.ip_network("2002::/16"), 80),  # 6to4
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: at most so many bytes of it were read."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Rules:
    """Where requests may go: everywhere public by https; to `allowed` networks also, and there without TLS."""

    allowed: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        """Whether a connection to this address is made."""
        return self.is_listed(address) or _is_public(address)

    def is_listed(self, address: Address) -> bool:
        """Whether it lies in a network that was allowed by name."""
        plain = _unmapped(address)
        return any(plain.version == network.version and plain in network for network in self.allowed)


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks from texts such as 10.0.0.0/8; raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def check_url(url: str, rules: Rules) -> SplitResult:
    """The parts of an address; raises Unprocessable E-OUT-01, and E-OUT-02 for an address of numbers that lies inside."""
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError:
        raise Unprocessable(BAD_URL, "this is no address", where="$.url") from None
    printable = all(33 <= ord(character) < 127 for character in url)
    if not (printable and len(url) <= _URL_CHARACTERS and place.hostname) or port == 0:
        raise Unprocessable(BAD_URL, "this is no address of printable ASCII characters with a host", where="$.url")
    if place.scheme not in ("https", "http") or place.username is not None or place.fragment:
        raise Unprocessable(BAD_URL, "an address has https, no user, no password and no fragment", where="$.url")
    if place.scheme == "http" and not rules.allowed:
        raise Unprocessable(BAD_URL, "an address without TLS can't be called from here", where="$.url")
    if (address := _literal(place.hostname)) is not None and not rules.permits(address):
        raise Unprocessable(INSIDE, "this address is private or special", where="$.url")
    return place


def request(
    method: str,
    url: str,
    *,
    rules: Rules,
    headers: Mapping[str, str],
    body: bytes | None = None,
    seconds: float,
    most_bytes: int,
) -> Answer:
    """Send one request and read at most `most_bytes` of its answer; a redirect is an answer like any other.

    Raises Unprocessable E-OUT-01 or 02 for where it may not go, Unavailable E-OUT-03 when no whole answer came in time.
    """
    place = check_url(url, rules)
    deadline = Deadline(seconds)
    connection = _connected(place, rules, deadline)
    # Timeouts of sockets start anew with each byte; this one does not.
    watch = threading.Timer(deadline.left, _cut_off, (connection,))
    watch.daemon = True
    watch.start()
    try:
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        connection.request(method, target, body=body, headers={**headers, "Connection": "close"})
        response = connection.getresponse()
        content = response.read(most_bytes)
        return Answer(response.status, content)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_answer(error) from None
    finally:
        watch.cancel()
        connection.close()


def _connected(place: SplitResult, rules: Rules, deadline: Deadline) -> http.client.HTTPConnection:
    host, port = str(place.hostname), place.port or (443 if place.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _no_answer(error) from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses or not all(rules.permits(address) for address in addresses):
        raise Unprocessable(INSIDE, "the name stands for an address that is private or special", where="$.url")
    if place.scheme == "http" and not all(rules.is_listed(address) for address in addresses):
        raise Unprocessable(BAD_URL, "an address outside is called with https only", where="$.url")
    failure: Exception = OSError("no address")
    for address in dict.fromkeys(addresses):
        try:
            return _opened(place.scheme, host, port, str(address), deadline)
        except (OSError, Rejected) as error:
            failure = error
    raise _no_answer(failure) from None


def _opened(scheme: str, host: str, port: int, address: str, deadline: Deadline) -> http.client.HTTPConnection:
    raw = socket.create_connection((address, port), timeout=max(0.05, deadline.left))
    connection = http.client.HTTPConnection(host, port)
    try:
        # the certificate is that of the name, though the connection goes to an address
        connection.sock = (
            ssl.create_default_context().wrap_socket(raw, server_hostname=host) if scheme == "https" else raw
        )
        connection.sock.settimeout(max(0.05, deadline.left))
    except BaseException:
        raw.close()
        raise
    return connection


def _cut_off(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):  # it has ended by itself
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of TLS too: its own would wait for the other side


def _no_answer(error: Exception) -> Unavailable:
    return Unavailable(NO_ANSWER, "no answer came", why=type(error).__name__)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _unmapped(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_public(address: Address) -> bool:
    plain = _unmapped(address)
    if not plain.is_global or plain.is_multicast or plain.is_reserved or plain.is_unspecified:
        return False
    # an address of IPv6 may carry one of IPv4, and a gateway takes it out
    for network, shift in _EMBEDDED:
        if isinstance(plain, ipaddress.IPv6Address) and plain in network:
            return _is_public(ipaddress.IPv4Address((int(plain) >> shift) & 0xFFFFFFFF))
    return True
