"""From a topic to a reviewed report, over real files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from examples.studio.planning import TopicError, make_plan
from examples.studio.quality import dangling, quality
from examples.studio.reading import MAX_RESULT_BYTES
from examples.studio.rendering import escape
from examples.studio.review import review_draft
from examples.studio.shapes import Draft, Missing, Plan, Reading
from examples.studio.topicality import parts_of
from examples.studio.words import content_words
from examples.studio.writing import write_draft

Research = Callable[..., tuple[Plan, list[Reading]]]
TOPIC = "how to open an oak barrel"


def quotes(draft: Draft) -> str:
    return " ".join(statement.text for section in draft.sections for statement in section.statements)


def test_the_report_quotes_what_answers_and_leaves_out_the_rest(cellar: Path, researched: Research) -> None:
    """Definitions, uses and warnings are found in Markdown and HTML; badges, sponsors and changes are not."""
    draft = write_draft(*researched("oak barrel", cellar))
    said = quotes(draft)
    assert "An oak barrel is a wooden container" in said
    assert "remove the bung" in said
    assert "An oak barrel must not dry out" in said
    assert "OakBarrel(size=225)" in said
    for noise in ("badge", "donate", "bug #123", "menu", "track(", "Copyright", "train"):
        assert noise not in said
    assert draft.sections[0].heading == "In short"


def test_statements_are_where_they_belong(cellar: Path, researched: Research) -> None:
    """A default is a setting, a danger a pitfall, a comparison an alternative."""
    plan, readings = researched("oak barrel", cellar)
    draft = write_draft(plan, readings)
    by_heading = {section.heading: " ".join(s.text for s in section.statements) for section in draft.sections}
    assert "Default" in by_heading.get("Settings and defaults", "") or "settings" not in {q.id for q in plan.questions}
    assert "dry out" in by_heading.get("Limits and pitfalls", "") + by_heading["In short"]
    assert "dry out" not in by_heading.get("What it is about", "")


def test_nothing_is_said_twice(cellar: Path, researched: Research) -> None:
    """A second copy of a document, slightly changed, adds nothing."""
    (cellar / "copy.md").write_text((cellar / "barrels.md").read_text().replace("An oak", "One oak"))
    texts = [s.text for section in write_draft(*researched("oak barrel", cellar)).sections for s in section.statements]
    assert len(texts) == len(set(texts))
    assert sum("wooden container" in text for text in texts) == 1


def test_every_citation_resolves(cellar: Path, researched: Research) -> None:
    """Review reads each passage again and finds the quotation."""
    draft = write_draft(*researched("oak barrel", cellar))
    report = review_draft(draft)
    assert report.citations == report.resolved == len(draft.citations) > 5
    assert report.unresolved == 0
    assert f"all {report.citations} quotations stand" in report.markdown
    for citation in draft.citations:
        assert f"\n{citation.number}. " in report.markdown


def test_a_source_that_changes_meanwhile_is_withdrawn(cellar: Path, researched: Research) -> None:
    """What no longer stands in its source is taken out, with the reason; the rest is renumbered without gaps."""
    draft = write_draft(*researched("oak barrel", cellar))
    path = cellar / "barrels.md"
    path.write_text(path.read_text().replace("wooden container", "plastic box"))
    report = review_draft(draft)
    assert report.unresolved == 1
    assert report.resolved == report.citations - 1
    assert "wooden container" not in report.markdown
    assert "has changed since it was read" in report.markdown
    numbers = [int(line.split(".")[0]) for line in report.markdown.split("\n") if line[:1].isdigit()]
    assert numbers == list(range(1, report.resolved + 1))


def test_a_source_that_vanishes_is_withdrawn(cellar: Path, researched: Research) -> None:
    """All citations of a document that is gone are withdrawn; the report still appears."""
    draft = write_draft(*researched("oak barrel", cellar))
    (cellar / "barrels.md").unlink()
    (cellar / "pages" / "cellars.html").unlink()
    report = review_draft(draft)
    assert report.resolved == 0
    assert "it is no longer there" in report.markdown
    assert "did not stand up to review" in report.markdown


def test_an_invented_quotation_does_not_resolve(cellar: Path, researched: Research) -> None:
    """A right address with wrong words is found out."""
    draft = write_draft(*researched("oak barrel", cellar))
    forged = replace(draft.citations[0], quote="Oak barrels are made of gold.")
    report = review_draft(replace(draft, citations=[forged, *draft.citations[1:]]))
    assert report.unresolved == 1
    assert "the quoted words do not stand in" in report.markdown


def test_bad_documents_are_listed_with_their_reason(cellar: Path, researched: Research) -> None:
    """Unreadable files and readings that did not arrive are in the report, grouped by reason."""
    (cellar / "broken.pdf").write_bytes(b"%PDF-1.4 no")
    (cellar / "empty.md").write_bytes(b"")
    (cellar / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe\x00\x01")
    late = Missing("file:late.md", "late.md", "not read when the join opened")
    report = review_draft(write_draft(*researched("oak barrel", cellar), [late]))
    assert report.missing == 4
    assert report.documents == 3
    for line in ("`file:empty.md`: an empty file.", "`file:broken.pdf`: a broken PDF", "`file:image.png`: a PNG image",
                 "`file:late.md`: not read when the join opened."):  # fmt: skip
        assert line in report.markdown


def test_nothing_found_is_said_plainly(cellar: Path, researched: Research) -> None:
    """A topic that no source mentions gives a report that says so, and no invented statement."""
    report = review_draft(write_draft(*researched("quantum chromodynamics", cellar)))
    assert report.citations == 0
    assert "None of the sources that were read says anything about this topic." in report.markdown
    assert "“quantum”, “chromodynamics”" in report.markdown


def test_no_readings_at_all_make_a_report(cellar: Path, researched: Research) -> None:
    """When no reading arrived the draft still stands and lists what is missing."""
    plan, _ = researched("oak barrel", cellar)
    assert review_draft(write_draft(plan, [], [Missing("file:a", "a", "late")])).missing == 1


def test_work_is_repeatable(cellar: Path, researched: Research) -> None:
    """A step that runs twice gives the same: plan, readings and draft are functions of their input."""
    first, second = (researched(TOPIC, cellar) for _ in range(2))
    assert first == second
    assert write_draft(*first) == write_draft(*second)


def test_values_are_json_and_small(cellar: Path, researched: Research) -> None:
    """Everything between the steps survives JSON, and a reading stays below the limit of a result."""
    sentence = (
        "An oak barrel is a wooden container of kind number {n} that is ☃ used when wine is stored for {n} years. "
    )
    (cellar / "long.txt").write_text("\n\n".join(sentence.format(n=n) * 8 for n in range(300)), encoding="utf-8")
    plan, readings = researched("oak barrel", cellar)
    for value in (plan, *readings, write_draft(plan, readings)):
        assert json.loads(json.dumps(asdict(value))) == asdict(value)
    assert max(len(json.dumps(asdict(reading)).encode()) for reading in readings) < MAX_RESULT_BYTES + 16 * 1024


@pytest.mark.parametrize("topic", ["", "   ", "what is it?", "x" * 500])
def test_topics_that_say_nothing_are_refused(topic: str, cellar: Path) -> None:
    """An empty, hollow or overlong topic is the requester's mistake."""
    with pytest.raises(TopicError):
        make_plan(topic, [str(cellar)])


def test_questions_are_four_to_seven(cellar: Path) -> None:
    """Every plan asks at least the four basic questions, each once."""
    plan, _ = make_plan(TOPIC, [str(cellar)])
    assert 4 <= len(plan.questions) <= 7
    assert len({question.heading for question in plan.questions}) == len(plan.questions)


@pytest.mark.parametrize(
    ("topic", "parts"),
    [
        ("structured logging with context variables", [[[0, 1]], [[2, 3]]]),
        ("sign and verify messages with Ed25519", [[[0, 2], [1, 2]], [[3]]]),
        ("HTTP retries and timeouts", [[[0, 1], [0, 2]]]),
        ("oak barrel", [[[0, 1]]]),
    ],
)
def test_a_topic_has_parts_and_alternatives(topic: str, parts: list[list[list[int]]]) -> None:
    """Small words divide a topic into parts that all must be met; `and` lists what may be met alone."""
    assert parts_of(topic, content_words(topic)) == parts


@pytest.mark.parametrize(
    "rubbish",
    [
        "New in version 3.5.",
        "Run pip install barrel to get it on your machine.",
        "See https://example.org/docs for the whole story about barrels.",
        "the end of a sentence that began somewhere else.",
        "This is announced by the following:",
        "Licensed under the MIT licence, copyright by everybody involved.",
        "x | y | z || 12 == 13 ;; {{ }} <b> 44 55 66",
        "",
    ],
)
def test_rubbish_scores_low(rubbish: str) -> None:
    """Boilerplate, fragments and markup stay far below a plain statement."""
    assert quality(rubbish) < 0.35 < quality("A pool keeps connections open so that they can be used again later.")


def test_sentences_that_lean_on_others_are_known() -> None:
    """`It does so` cannot stand alone, `Italian wine` can."""
    assert dangling("It does so when it is dry.")
    assert dangling("“However, it leaks.”")
    assert not dangling("Italian wine is stored in it.")


def test_quoted_text_cannot_become_markup() -> None:
    """Links, images, HTML and emphasis in a source are shown, not rendered; code spans stay."""
    shown = escape("<script>x</script> ![i](u) [a](javascript:x) *b* __init__ `a<b` | &lt; # no")
    for active in ("<script", "![i](u)", "[a](", " *b*", "&lt; #"):
        assert active not in shown
    assert "`a<b`" in shown
    assert "`__init__`" in shown
    assert escape("# Heading").startswith("\\#")
