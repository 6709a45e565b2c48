"""Where requests to strangers' addresses may go, without a network."""

from __future__ import annotations

import ipaddress

import pytest

from stanchion.errors import Unprocessable
from stanchion.runtime.outside import Rules, check_url, networks_of

INSIDE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "255.255.255.255", "224.0.0.1", "192.0.0.1", "198.18.0.1", "240.0.0.1", "::", "::1", "fe80::1", "fc00::1", "fd12::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::",
    "2002:a00:1::", "2001:db8::1",
]  # fmt: skip


class TestAddresses:
    """Each is judged as what it reaches."""

    @pytest.mark.parametrize("text", INSIDE)
    def test_special_addresses_are_inside(self, text: str) -> None:
        """Private, loopback, link-local, shared, multicast, reserved; also wrapped into IPv6."""
        assert not Rules().permits(ipaddress.ip_address(text))

    @pytest.mark.parametrize("text", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"])
    def test_public_addresses_are_not(self, text: str) -> None:
        """Those may be called."""
        assert Rules().permits(ipaddress.ip_address(text))

    def test_a_network_can_be_allowed_by_name(self) -> None:
        """That one, and nothing beside it."""
        rules = Rules(networks_of(["10.1.0.0/16", "::1/128"]))
        assert rules.permits(ipaddress.ip_address("10.1.2.3"))
        assert rules.permits(ipaddress.ip_address("::ffff:10.1.2.3"))
        assert rules.permits(ipaddress.ip_address("::1"))
        assert not rules.permits(ipaddress.ip_address("10.2.0.1"))
        assert not rules.permits(ipaddress.ip_address("127.0.0.1"))


class TestUrls:
    """What is no plain address of a public place is refused before anything is resolved."""

    @pytest.mark.parametrize(
        "url",
        [
            "", "x", "ftp://a/", "file:///etc/passwd", "https://", "https:///x", "https://u:p@a.example/", "https://u@a.example/",
            "https://a.example/#x", "https://a.example:0/", "https://a.example:99999/", "https://a.example/ x", "https://a\r\n.example/",
            "https://é.example/", "https://a.example/" + "x" * 2_000, "http://a.example/", "gopher://a.example/", "https://[::1/",
        ],
    )  # fmt: skip
    def test_bad_addresses(self, url: str) -> None:
        """422 with the rule."""
        with pytest.raises(Unprocessable):
            check_url(url, Rules())

    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]"])
    def test_numbers_that_lie_inside(self, host: str) -> None:
        """Are refused at once."""
        with pytest.raises(Unprocessable) as refused:
            check_url(f"https://{host}/", Rules())
        assert refused.value.code == "E-OUT-02"

    def test_a_good_one(self) -> None:
        """Any path and query."""
        assert check_url("https://hooks.example:8443/a?b=c", Rules()).hostname == "hooks.example"
