"""Words and stems."""

from __future__ import annotations

import pytest

from examples.studio.words import content_words, stem, tokens


@pytest.mark.parametrize(
    "forms",
    [
        "connection connections connect connecting connected connector",
        "rebalance rebalancing rebalanced rebalances",
        "generator generators generate generated generation",
        "verify verifies verified verification verifier",
        "recover recovery recovered recovering",
        "log logs logging logger logged",
        "retry retries retried",
        "close closes closed closing",
        "lost lose losing loss",
        "asynchronous asynchronously async",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    """The topic finds a text whatever form either uses."""
    assert len({stem(form) for form in forms.split()}) == 1


def test_different_words_stay_apart() -> None:
    """Stemming must not make one of words that mean different things."""
    words = ["pool", "poll", "server", "service", "format", "form", "general", "generator", "class", "close", "post"]
    assert len({stem(word) for word in words}) == len(words)


def test_names_in_code_are_taken_apart() -> None:
    """`session_timeout_ms` speaks about timeouts, `ConsumerRebalanceListener` about rebalancing."""
    assert tokens("session_timeout_ms")[:2] == [stem("session"), stem("timeout")]
    assert stem("rebalance") in tokens("ConsumerRebalanceListener")


def test_topic_words_are_those_that_say_something() -> None:
    """Question words and prepositions are no words of the topic; hyphens divide; repetitions go."""
    assert content_words("how to sign and verify messages with Ed25519") == ["sign", "verify", "messages", "Ed25519"]
    assert content_words("Property-based testing") == ["Property", "based", "testing"]
    assert content_words("how connection pools recover from lost connections") == [
        "connection",
        "pools",
        "recover",
        "lost",
    ]
    assert content_words("what is it about?") == []
