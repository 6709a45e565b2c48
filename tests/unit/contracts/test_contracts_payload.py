"""Payloads: strict I-JSON, one rule everywhere, refusals that name the place."""

from __future__ import annotations

import enum
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts import limits, payload
from stanchion.contracts.json_scanner import scan
from stanchion.errors import TooLarge, Unprocessable

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-limits.INTEGER_MAX, limits.INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)

REFUSED: list[tuple[str, bytes, str, str]] = [
    ("empty", b"", "E-DATA-01", "$"),
    ("blank", b" \n", "E-DATA-01", "$"),
    ("truncated object", b'{"a": 1', "E-DATA-01", "$.a"),
    ("truncated array", b"[1, 2", "E-DATA-01", "$[1]"),
    ("trailing comma", b"[1,]", "E-DATA-01", "$[1]"),
    ("missing value", b'{"a":}', "E-DATA-01", "$.a"),
    ("missing colon", b'{"a" 1}', "E-DATA-01", "$.a"),
    ("two values", b"1 2", "E-DATA-01", "$"),
    ("leading zero", b"01", "E-DATA-01", "$"),
    ("plus sign", b"+1", "E-DATA-01", "$"),
    ("bare point", b"1.", "E-DATA-01", "$"),
    ("hexadecimal", b"0x10", "E-DATA-01", "$"),
    ("single quotes", b"'a'", "E-DATA-01", "$"),
    ("comment", b"1 // one", "E-DATA-01", "$"),
    ("bare control character", b'"a\nb"', "E-DATA-01", "$"),
    ("bad escape", b'"\\x41"', "E-DATA-01", "$"),
    ("half an escape", b'"\\u00"', "E-DATA-01", "$"),
    ("python literal", b"None", "E-DATA-01", "$"),
    ("one stray byte", b"\x8d", "E-DATA-02", "$"),
    ("not UTF-8", b'{"a":"\xff"}', "E-DATA-02", "$"),
    ("Latin-1", "ü".encode("latin-1"), "E-DATA-02", "$"),
    ("UTF-16", '{"a":1}'.encode("utf-16"), "E-DATA-02", "$"),
    ("an encoded surrogate", b'"\xed\xa0\x80"', "E-DATA-02", "$"),
    ("NUL in a text", b'{"a":{"b":["\\u0000"]}}', "E-DATA-03", "$.a.b[0]"),
    ("NUL in a key", b'{"a":{"\\u0000":1}}', "E-DATA-03", '$.a["(key)"]'),
    ("lone surrogate", b'["\\ud800"]', "E-DATA-04", "$[0]"),
    ("surrogates in the wrong order", b'["\\ude00\\ud83d"]', "E-DATA-04", "$[0]"),
    ("NaN", b'{"x":NaN}', "E-DATA-05", "$.x"),
    ("Infinity", b'{"x":[1,Infinity]}', "E-DATA-05", "$.x[1]"),
    ("-Infinity", b"-Infinity", "E-DATA-05", "$"),
    ("number beyond a double", b"[1e400]", "E-DATA-05", "$[0]"),
    ("2**53", b"[9007199254740992]", "E-DATA-06", "$[0]"),
    ("a snowflake id", b'{"id":3544790567247868102}', "E-DATA-06", "$.id"),
    ("-2**63", b"-9223372036854775808", "E-DATA-06", "$"),
    ("2**64+1", b"18446744073709551617", "E-DATA-06", "$"),
    ("400 digits", b"9" * 400, "E-DATA-06", "$"),
    ("100,000 digits", b"[" + b"9" * 100_000 + b"]", "E-DATA-06", "$[0]"),
    ("duplicate key", b'{"a":{"b":1,"b":2}}', "E-DATA-07", "$.a.b"),
    ("duplicate key, written otherwise", b'{"a":1,"\\u0061":1}', "E-DATA-07", "$.a"),
]


def assert_readers_agree(data: bytes) -> None:
    def outcome(read: Callable[[], Any]) -> str:
        try:
            return repr(read())
        except Unprocessable as error:
            return error.code

    assert outcome(lambda: payload.parse(data)) == outcome(
        lambda: payload._scan(data.removeprefix(b"\xef\xbb\xbf"), "$")
    )


class TestParse:
    @pytest.mark.parametrize(
        ("data", "code", "where"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
    )
    def test_refuses_with_the_code_and_the_path(self, data: bytes, code: str, where: str) -> None:
        """Everything that two readers could read differently, or PostgreSQL can't store, is refused at the edge."""
        with pytest.raises(Unprocessable) as caught:
            payload.parse(data)
        assert (caught.value.code, caught.value.where) == (code, where)

    @pytest.mark.parametrize("levels", [65, 200, 1_000, 100_000])
    @pytest.mark.parametrize("shape", ["lists", "dicts", "both"])
    def test_deep_nesting_is_a_refusal_and_no_recursion_error(self, levels: int, shape: str) -> None:
        """A body of a few bytes must not exhaust the interpreter's stack."""
        opened = {"lists": b"[", "dicts": b'{"a":', "both": b'[{"a":'}[shape]
        closed = {"lists": b"]", "dicts": b"}", "both": b"}]"}[shape]
        for data in (opened * levels, opened * levels + b"1" + closed * levels):
            with pytest.raises(Unprocessable) as caught:
                payload.parse(data)
            assert caught.value.code == "E-DATA-08"
            assert len(str(caught.value)) < 400

    def test_the_deepest_allowed_value_passes(self) -> None:
        """64 levels are allowed, 65 are not."""
        deepest = b"[" * 64 + b"]" * 64
        assert json.dumps(payload.parse(deepest)).encode() == deepest
        with pytest.raises(Unprocessable, match="64"):
            payload.parse(b"[" + deepest + b"]")

    @pytest.mark.parametrize(
        ("data", "value"),
        [
            (b"null", None),
            (b" true ", True),
            (b"-0", 0),
            (b"9007199254740991", limits.INTEGER_MAX),
            (b"-9007199254740991", -limits.INTEGER_MAX),
            (b"0.30000000000000004", 0.30000000000000004),
            (
                b"[1234567890123456789.5, 1e300, 1E5, 12345678901234567e2]",
                [1234567890123456789.5, 1e300, 1e5, 1.2345678901234567e18],
            ),
            (b'"\\ud83d\\ude00"', "😀"),
            ('"👩🏽‍🚀 مرحبا"'.encode(), "👩🏽‍🚀 مرحبا"),
            (b'["\\\\u0000"]', ["\\u0000"]),
            (b'{"a:b":":","":1}', {"a:b": ":", "": 1}),
            (b'{"9999999999999999999":"9999999999999999999"}', {"9999999999999999999": "9999999999999999999"}),
            (b'\xef\xbb\xbf{"a":[]}', {"a": []}),
            ('\ufeff{"a":[]}', {"a": []}),
            ('"\ufeff"', "\ufeff"),
        ],
    )
    def test_accepts_what_is_right(self, data: bytes | str, value: Any) -> None:
        """The bounds themselves, escapes, long floats, emoji, right-to-left text, a byte order mark."""
        parsed = payload.parse(data)
        assert parsed == value
        assert type(parsed) is type(value)

    @given(VALUES)
    def test_reads_what_it_writes(self, value: Any) -> None:
        """dumps and parse are each other's inverse on every allowed value."""
        assert payload.parse(payload.dumps(value)) == value

    @given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
    def test_the_fast_and_the_exact_reader_agree(self, data: bytes) -> None:
        """Whatever comes in, both readers accept it with one value or refuse it with one code."""
        assert_readers_agree(data)

    @given(VALUES, st.data())
    def test_they_agree_on_damaged_json_too(self, value: Any, data: st.DataObject) -> None:
        """One byte of a good text changed, removed or doubled: still one verdict."""
        raw = bytearray(json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode())
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + 1] = data.draw(
            st.sampled_from([b"", b'"', b"\\", b"9" * 17, b"}", b",", b":", raw[at : at + 1] * 2])
        )
        assert_readers_agree(bytes(raw))

    def test_a_text_with_half_a_pair_is_refused_with_its_place(self) -> None:
        """A str may hold what bytes can't."""
        with pytest.raises(Unprocessable) as caught:
            payload.parse('{"a":["\ud800"]}')
        assert (caught.value.code, caught.value.where) == ("E-DATA-04", "$.a[0]")

    def test_paths_start_where_the_caller_says_and_stay_short(self) -> None:
        """Foreign keys go into the path cut and quoted; values never do."""
        with pytest.raises(Unprocessable) as caught:
            payload.parse(b'{"' + b"k" * 10_000 + b'":{"x y":NaN,"secret":"hunter2"}}', where="$.input")
        assert caught.value.where is not None
        assert caught.value.where.startswith('$.input["kkk')
        assert caught.value.where.endswith('["x y"]')
        assert len(caught.value.where) < 100
        assert "hunter2" not in str(caught.value)


class Colour(enum.StrEnum):
    RED = "red"


LOOP: list[Any] = []
LOOP.append(LOOP)
BOMB: list[Any] = [1]
for _ in range(60):
    BOMB = [BOMB, BOMB]


class TestCheck:
    @pytest.mark.parametrize(
        ("value", "code", "where"),
        [
            ({"a": {"b": [0, float("nan")]}}, "E-DATA-05", "$.a.b[1]"),
            (float("-inf"), "E-DATA-05", "$"),
            ([2**53], "E-DATA-06", "$[0]"),
            (10**400, "E-DATA-06", "$"),
            ("a\x00b", "E-DATA-03", "$"),
            ({"a\x00": 1}, "E-DATA-03", '$["a\\u0000"]'),
            ([b"\xff".decode("utf-8", "surrogateescape")], "E-DATA-04", "$[0]"),
            ({1: 2}, "E-DATA-10", '$["(key)"]'),
            ({None: 2}, "E-DATA-10", '$["(key)"]'),
            (LOOP, "E-DATA-08", None),
        ],
    )
    def test_refuses_with_the_code_and_the_path(self, value: Any, code: str, where: str | None) -> None:
        """The same rules as for a text, and no endless walk."""
        with pytest.raises(Unprocessable) as caught:
            payload.check(value)
        assert caught.value.code == code
        assert where is None or caught.value.where == where

    @pytest.mark.parametrize(
        ("value", "name"),
        [
            (numpy.float64(1.5), "numpy.float64"),
            (numpy.int64(1), "numpy.int64"),
            (numpy.bool_(True), "numpy.bool"),
            (numpy.array([1]), "numpy.ndarray"),
            (b"bytes", "bytes"),
            ({1, 2}, "set"),
            (Decimal(1), "decimal.Decimal"),
            (Colour.RED, "Colour"),
            (OrderedDict(), "collections.OrderedDict"),
            (object(), "object"),
            (iter([]), "list_iterator"),
            (1j, "complex"),
        ],
    )
    def test_other_types_are_refused_by_name(self, value: Any, name: str) -> None:
        """The author learns which type it was and where it stood."""
        with pytest.raises(Unprocessable, match=name) as caught:
            payload.check({"x": [value]})
        assert (caught.value.code, caught.value.where) == ("E-DATA-09", "$.x[0]")

    def test_a_small_value_that_unfolds_without_end_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sixty lists, each twice the one before, are 2**60 values once written out."""
        monkeypatch.setattr(limits, "PAYLOAD_VALUES", 10_000)
        with pytest.raises(Unprocessable, match="10,000 values"):
            payload.check(BOMB)

    def test_tuples_become_lists_and_nothing_is_shared(self) -> None:
        """What was checked can't be changed afterwards by whoever gave it."""
        given_value: dict[str, Any] = {"a": (1, (2,), []), "b": {}}
        copied: Any = payload.check(given_value)
        assert copied == {"a": [1, [2], []], "b": {}}
        given_value["b"]["c"] = float("nan")
        assert copied["b"] == {}

    @given(VALUES)
    def test_an_allowed_value_is_returned_equal(self, value: Any) -> None:
        """Nothing is changed on the way."""
        assert payload.check(value) == value


class TestCanonical:
    @given(VALUES)
    def test_is_rfc_8785(self, value: Any) -> None:
        """The fast way and the library agree on every value."""
        assert payload.canonical(value) == rfc8785.dumps(value)

    def test_the_order_of_keys_makes_no_difference(self) -> None:
        """Nested keys too, as a trip through jsonb reorders them."""
        one: Any = {"b": {"y": 1, "x": [1, 2]}, "a": "é", "😀": 1, "\ufb33": 2}
        other: Any = {"\ufb33": 2, "😀": 1, "a": "é", "b": {"x": [1, 2], "y": 1}}
        assert payload.digest(one) == payload.digest(other)

    @pytest.mark.parametrize(
        ("one", "other"), [(1, 1.0), (0, -0.0), (1e5, 100_000), (1e-5, 0.00001), (1e16, 10**16), (1e300, 10**300)]
    )
    def test_numbers_that_mean_the_same_hash_the_same(self, one: Any, other: Any) -> None:
        """1 and 1.0, other spellings of one double, and what jsonb makes of a large one."""
        assert payload.digest([one]) == payload.digest([other])

    @pytest.mark.parametrize(
        ("one", "other"), [(1, "1"), (None, False), (None, "null"), ([], {}), (0, None), (1, True)]
    )
    def test_what_differs_hashes_differently(self, one: Any, other: Any) -> None:
        """Types are part of the meaning."""
        assert payload.digest(one) != payload.digest(other)

    def test_the_digest_is_sha_256_of_the_canonical_form(self) -> None:
        """Another program can compute it."""
        assert (
            payload.digest({"b": 1, "a": [True, None, 1.5]}) == hashlib.sha256(b'{"a":[true,null,1.5],"b":1}').digest()
        )

    def test_nan_has_no_canonical_form(self) -> None:
        """An unchecked NaN must not hash as null."""
        with pytest.raises(ValueError, match="JCS"):
            payload.canonical(float("nan"))


class TestSizes:
    def test_size_counts_the_bytes_of_the_text(self) -> None:
        """Bytes, not characters."""
        assert payload.size({"a": "é"}) == len('{"a":"é"}'.encode())

    def test_passing_a_limit_names_it_the_value_and_the_fix(self) -> None:
        """At the limit it passes; one byte more does not."""
        payload.check_size(limits.INLINE_BYTES, limits.INLINE_BYTES, "the input")
        with pytest.raises(TooLarge, match=r"65,537 bytes; the limit is 65,536") as caught:
            payload.check_size(limits.INLINE_BYTES + 1, limits.INLINE_BYTES, "the input")
        assert caught.value.fix

    def test_dumps_names_what_an_unchecked_value_holds(self) -> None:
        """No bare TypeError of the encoder."""
        with pytest.raises(Unprocessable, match="set"):
            payload.dumps({"x": {1}})  # type: ignore[dict-item]


class TestKeys:
    @pytest.mark.parametrize("key", ["a", "order-42", " a", "A" * 200, "日本語", "a b", "ключ", "🙂", "a\u00a0b"])
    def test_accepts(self, key: str) -> None:
        """Any text of 1 to 200 characters that can be printed."""
        assert payload.check_key(key) == key

    @pytest.mark.parametrize(
        "key",
        [
            "",
            " ",
            "\t",
            "\n",
            "\u3000",
            "a\x00b",
            "a\tb",
            "a\nb",
            "a\x7f",
            "a\x85b",
            "\ud800",
            "x" * 201,
            "x" * 100_000,
        ],
    )
    def test_refuses(self, key: str) -> None:
        """Empty, blank, over-long, or with characters that nobody sees."""
        with pytest.raises(Unprocessable) as caught:
            payload.check_key(key)
        assert caught.value.code == "E-DATA-12"
        assert len(str(caught.value)) < 300

    def test_composed_and_decomposed_accents_are_one_key(self) -> None:
        """The one written rule: NFC; everything else is exact."""
        assert payload.check_key("cafe\u0301") == payload.check_key("caf\u00e9")
        assert payload.check_key("A") != payload.check_key("a")
        assert payload.check_key("a ") != payload.check_key("a")
        assert payload.check_key("ﬁ") != payload.check_key("fi")


def test_the_exact_reader_reports_line_and_column() -> None:
    """A person can find the place in an editor."""
    with pytest.raises(Unprocessable, match=r"line 3, column 8"):
        scan('{\n  "a": 1,\n  "b": x\n}', "$")
