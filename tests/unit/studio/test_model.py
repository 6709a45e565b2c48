"""Planning and writing with a chat model behind a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ModelServer

from examples.studio.composing import cited_sentences, plan_with_model, write_with_model
from examples.studio.model import (
    ChatModel,
    ModelRefusedError,
    ModelUnavailableError,
    find_json,
    from_environment,
    without_thoughts,
)
from examples.studio.planning import make_plan
from examples.studio.review import review_draft
from examples.studio.shapes import Plan, Reading

Research = Callable[..., tuple[Plan, list[Reading]]]
QUESTIONS = [
    {"heading": f"Side {n}", "question": f"What about side {n} of barrels?", "search": "staves hoops wine"}
    for n in range(1, 6)
]


@pytest.fixture
def model(model_server: ModelServer) -> ChatModel:
    found = from_environment(
        {"STANCHION_MODEL_URL": model_server.url + "/", "STANCHION_MODEL_NAME": "tiny", "STANCHION_MODEL_KEY": "s3cret"}
    )
    assert found is not None
    return found


def test_a_model_plans(model: ChatModel, model_server: ModelServer, cellar: Path) -> None:
    """The model's questions replace the usual ones, and the request is a chat completion with the key."""
    model_server.says("<think>hm {</think>Sure:\n```json\n" + json.dumps({"questions": QUESTIONS}) + "\n```")
    plan = plan_with_model(make_plan("oak barrel", [str(cellar)])[0], model)
    assert [question.heading for question in plan.questions] == [f"Side {n}" for n in range(1, 6)]
    assert plan.model == "tiny"
    assert model_server.headers[0]["path"] == "/v1/chat/completions"
    assert model_server.headers[0]["Authorization"] == "Bearer s3cret"
    assert model_server.requests[0]["model"] == "tiny"


@pytest.mark.parametrize(
    "answer",
    [
        "I would rather not.",
        "[1, 2",
        json.dumps({"questions": QUESTIONS[:2]}),
        json.dumps([1, None, {"heading": 3}]),
        '{"questions": "many"}',
    ],
)
def test_a_useless_plan_is_replaced(answer: str, model: ChatModel, model_server: ModelServer, cellar: Path) -> None:
    """A plan that cannot be used costs nothing but a note in the report."""
    model_server.says(answer)
    usual = make_plan("oak barrel", [str(cellar)])[0]
    plan = plan_with_model(usual, model)
    assert plan.questions == usual.questions
    assert "could not be used" in plan.notes[-1]


def test_a_model_writes_and_only_cited_sentences_stay(
    model: ChatModel, model_server: ModelServer, cellar: Path, researched: Research
) -> None:
    """Each section is the model's prose; a sentence without a citation, or with an invented one, is left out."""
    plan, readings = researched("oak barrel", cellar)
    model_server.says(
        "Barrels hold wine [1]. They are blue. They sing at night [99]. **Staves** shrink when dry [1][2]."
    )
    report = review_draft(write_with_model(plan, readings, [], model))
    assert "Barrels hold wine. [1]" in report.markdown
    assert "blue" not in report.markdown
    assert "at night" not in report.markdown
    assert "Written by the model tiny" in report.markdown
    assert "sentence(s) without a citation were left out" in report.markdown
    assert report.unresolved == 0
    sent = json.loads(model_server.requests[-1]["messages"][1]["content"])
    assert sent["topic"] == "oak barrel"
    assert all(passage["text"] for passage in sent["passages"])


def test_a_model_that_cites_nothing_is_replaced_by_quotations(
    model: ChatModel, model_server: ModelServer, cellar: Path, researched: Research
) -> None:
    """Prose without any citation is not printed; the quotations stand in its place, and the report says so."""
    plan, readings = researched("oak barrel", cellar)
    model_server.says("Barrels are nice and everybody knows it.")
    report = review_draft(write_with_model(plan, readings, [], model))
    assert "everybody knows" not in report.markdown
    assert "An oak barrel is a wooden container" in report.markdown
    assert "are quotations" in report.markdown


def test_a_model_may_find_nothing(
    model: ChatModel, model_server: ModelServer, cellar: Path, researched: Research
) -> None:
    """NOTHING leaves a section out."""
    plan, readings = researched("oak barrel", cellar)
    model_server.says("NOTHING.")
    draft = write_with_model(plan, readings, [], model)
    assert [section.heading for section in draft.sections] == ["In short", "In code"]
    assert draft.sections[0].remark == "The model found no answer in what the sources say."


@pytest.mark.parametrize(("status", "error"), [
    (500, ModelUnavailableError), (503, ModelUnavailableError), (429, ModelUnavailableError), (400, ModelRefusedError),
    (401, ModelRefusedError), (404, ModelRefusedError), (302, ModelRefusedError),
])  # fmt: skip
def test_errors_say_whether_to_try_again(
    status: int, error: type[Exception], model: ChatModel, model_server: ModelServer
) -> None:
    """Overload and faults are worth a retry, refusals and redirects are not; the key follows no redirect."""
    model_server.answers = [(status, {"error": {"message": "the reason"}})]
    with pytest.raises(error, match=str(status)):
        model.ask("a", "b")
    assert len(model_server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"not json",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": " "}}]}',
        b"[]",
        b"\xff\xfe",
    ],
)
def test_rubbish_from_the_server_is_worth_a_retry(answer: bytes, model: ChatModel, model_server: ModelServer) -> None:
    """Whatever is no chat completion is an error of the server, never a crash."""
    model_server.answers = [(200, answer)]
    with pytest.raises(ModelUnavailableError):
        model.ask("a", "b")


def test_a_server_that_is_away_is_worth_a_retry(model_server: ModelServer) -> None:
    """A refused connection is no crash."""
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        ChatModel("http://127.0.0.1:9/v1/chat/completions", "x").ask("a", "b")


def test_content_in_parts_is_joined(model: ChatModel, model_server: ModelServer) -> None:
    """Some servers send the text as a list of parts."""
    parts = [{"type": "text", "text": "Good "}, {"type": "text", "text": "day."}]
    model_server.answers = [(200, {"choices": [{"message": {"content": parts}}]})]
    assert model.ask("a", "b") == "Good day."


def test_settings() -> None:
    """No URL means no model; a bad setting is refused at once."""
    assert from_environment({}) is None
    assert from_environment({"STANCHION_MODEL_URL": "http://h/v1/chat/completions"}).url.endswith(
        "h/v1/chat/completions"
    )  # type: ignore[union-attr]
    for bad in (
        {"STANCHION_MODEL_URL": "file:///etc/passwd"},
        {"STANCHION_MODEL_URL": "http://h", "STANCHION_MODEL_TIMEOUT_SECONDS": "soon"},
    ):
        with pytest.raises(ModelRefusedError):
            from_environment(bad)


def test_json_is_found_in_prose() -> None:
    """A fence, a remark or a false start around the JSON does not hide it."""
    assert find_json('Here {is} it: {"a": [1]} bye') == {"a": [1]}
    assert find_json("none at all") is None
    assert find_json("[" * 100_000) is None
    assert without_thoughts("<thinking>a\nb</thinking>\nc") == "c"


def test_citations_are_understood_in_the_usual_spellings() -> None:
    """Marks before or behind the full stop, lists of numbers and lists of sentences all count."""
    text = "# Heading\n- The first is so. [1][2]\n- The second, too [2, 3].\n\nThe third is not so."
    statements, dropped = cited_sentences(text, {1, 2, 3})
    assert [(s.text, s.citations) for s in statements] == [("The first is so.", [1, 2]), ("The second, too.", [2, 3])]
    assert dropped == 1
