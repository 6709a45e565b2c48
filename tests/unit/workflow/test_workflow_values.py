"""How arguments and results cross a process, and what is said about those that don't fit."""

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, JsonValue
from typing_extensions import TypedDict

from stanchion.errors import Rejected, TooLarge, Unprocessable
from stanchion.workflow import (
    Again,
    AtLeast,
    Ctx,
    EncodedAgain,
    EncodedGo,
    EncodedRetry,
    EncodedSpawn,
    EncodedValue,
    Go,
    ListReader,
    ResultRow,
    Results,
    Retry,
    Spawn,
    Workflow,
)

Id = NewType("Id", str)


class Color(Enum):
    RED = "red"
    BLUE = 2


class Tone(StrEnum):
    DRY = "dry"


class Meta(TypedDict):
    lang: str
    size: NotRequired[int]


@dataclass
class Tree:
    value: int
    kids: list["Tree"] = field(default_factory=list)


class Pair(NamedTuple):
    one: int
    two: str


class Doc(BaseModel):
    id: UUID
    at: datetime
    price: Decimal | None = None
    tags: list[str] = Field(default_factory=list, max_length=3)


@dataclass
class Page:
    title: str
    day: date
    meta: Meta
    doc: Doc
    color: Color = Color.RED
    ratio: float = 0.5
    seen: dict[str, int] = field(default_factory=dict)


def a_cycle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def page() -> Page:
    doc = Doc(id=UUID(int=1), at=datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC), price=Decimal("1.10"), tags=["a"])
    return Page("t", date(2030, 1, 2), {"lang": "en"}, doc, Color.BLUE, 1, {"x": 1})


def one(kind: Any) -> Any:
    """A workflow of two steps over one type, and the codecs of both."""
    wf = Workflow("one")

    @wf.step()
    def give(ctx: Ctx, value: kind) -> kind:
        return value

    @wf.step(after=give)
    def take(ctx: Ctx, value: kind) -> None: ...

    return give


class TestRoundTrips:
    @pytest.mark.parametrize(
        ("kind", "value", "plain"),
        [
            (int, 3, 3),
            (float, 3, 3.0),
            (str, "ä\U0001f600", "ä\U0001f600"),
            (None, None, None),
            (bool, True, True),
            (Id, Id("x"), "x"),
            (Color, Color.BLUE, 2),
            (Tone, Tone.DRY, "dry"),
            (str, Tone.DRY, "dry"),
            (Literal["a", 1], 1, 1),
            (Decimal, Decimal("0.10"), "0.10"),
            (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
            (timedelta, timedelta(minutes=1), "PT1M"),
            (date, date(2030, 1, 2), "2030-01-02"),
            (list[int], [1, 2], [1, 2]),
            (tuple[int, ...], (1, 2), [1, 2]),
            (tuple[int, str], (1, "a"), [1, "a"]),
            (dict[str, float], {"a": 1.5}, {"a": 1.5}),
            (dict[int, str], {1: "a"}, {"1": "a"}),
            (dict[str, Any], {"a": [None, {"b": 1.5}]}, {"a": [None, {"b": 1.5}]}),
            (Any, [1, "a", None], [1, "a", None]),
            (Page | None, None, None),
            (Meta, {"lang": "en"}, {"lang": "en"}),
            (Annotated[int, Field(ge=0)], 3, 3),
            (Page | list[int] | str, "x", "x"),
            (JsonValue, {"a": [1, None]}, {"a": [1, None]}),
            (Tree, Tree(1, [Tree(2)]), {"value": 1, "kids": [{"value": 2, "kids": []}]}),
            (Pair, Pair(1, "a"), [1, "a"]),
        ],
    )
    def test_values_come_back_as_they_went(self, kind: Any, value: Any, plain: Any) -> None:
        """The JSON form is the documented one, and reading it gives an equal value of the same type."""
        give = one(kind)
        encoded = give.codec.encode_result(value)
        assert encoded == EncodedValue(plain)
        back = give.workflow.codec("take").decode_args(steps={"give": encoded.value})["value"]
        assert back == value
        assert give.codec.decode_result(encoded.value) == value

    def test_a_nested_dataclass_comes_back_whole(self) -> None:
        """Models inside typed dicts inside dataclasses, with dates, enums and decimals."""
        give = one(Page)
        encoded = give.codec.encode_value(page())
        assert encoded["doc"] == {
            "id": "00000000-0000-0000-0000-000000000001",
            "at": "2030-01-02T03:04:05.000006Z",
            "price": "1.10",
            "tags": ["a"],
        }
        assert give.codec.decode_args(input={"value": encoded}) == {"value": page()}

    def test_one_and_one_point_zero_are_one_payload(self) -> None:
        """What the digest takes for equal is taken by the argument too."""
        assert one(int).codec.decode_args(input={"value": 3.0}) == {"value": 3}
        assert one(list[int]).codec.decode_args(input={"value": [1, 2.0]}) == {"value": [1, 2]}
        with pytest.raises(Rejected, match="can't take"):
            one(int).codec.decode_args(input={"value": 3.5})


class Aliased(BaseModel):
    number: int = Field(alias="no")


class Free(BaseModel):
    anything: Any = None


class TestModels:
    def test_aliases_are_the_names_on_the_wire(self) -> None:
        """What is written under an alias is read under it."""
        assert one(Aliased).codec.encode_value(Aliased(no=3)) == {"no": 3}

    def test_a_nan_under_any_is_no_null(self) -> None:
        """A library that writes NaN as null would change a result without a word."""
        with pytest.raises(Unprocessable) as caught:
            one(Free).codec.encode_value(Free(anything=[math.nan]))
        assert (caught.value.code, caught.value.where) == ("E-DATA-05", "$.anything[0]")


class TestRefusals:
    @pytest.mark.parametrize(
        ("kind", "value", "path"),
        [
            (int, "3", "$"),
            (int, True, "$"),
            (str, 3, "$"),
            (float, "1", "$"),
            (list[int], (1, 2), "$"),
            (list[int], [1, "x"], "$[1]"),
            (date, "2030-01-02", "$"),
            (Meta, {"lang": 3}, "$.lang"),
            (Meta, {}, "$.lang"),
            (dict[str, list[Meta]], {"a b": [{"lang": None}]}, '$["a b"][0].lang'),
        ],
    )
    def test_a_result_of_another_type_is_refused_by_path(self, kind: Any, value: Any, path: str) -> None:
        """Nothing is converted silently: the annotation is a promise to the steps behind."""
        with pytest.raises(Rejected) as caught:
            one(kind).codec.encode_result(value)
        assert (caught.value.code, caught.value.where) == ("E-STEP-32", path)
        assert caught.value.details["problems"][0]["path"] == path

    @pytest.mark.parametrize("bad", ["x", None, [1]])
    def test_a_field_that_lies_is_named(self, bad: Any) -> None:
        """An instance passes as an instance; its fields are read before they are stored."""
        lying = page()
        lying.seen = {"a": bad}
        with pytest.raises(Rejected) as caught:
            one(Page).codec.encode_result(lying)
        assert (caught.value.code, caught.value.where) == ("E-STEP-32", "$.seen.a")

    def test_values_never_stand_in_the_message(self) -> None:
        """A payload may hold a secret."""
        lying = page()
        lying.doc.tags = "hunter2"
        with pytest.raises(Rejected) as caught:
            one(Page).codec.encode_result(lying)
        assert "hunter2" not in str(caught.value) + repr(caught.value.details)
        with pytest.raises(Rejected) as caught:
            one(int).codec.decode_args(input={"value": "hunter2"})
        assert "hunter2" not in str(caught.value) + repr(caught.value.details)

    @pytest.mark.parametrize(
        ("kind", "value", "code", "path"),
        [
            (float, math.nan, "E-DATA-05", "$"),
            (dict[str, float], {"a": math.inf}, "E-DATA-05", "$.a"),
            (list[int], [2**53], "E-DATA-06", "$[0]"),
            (str, "a\x00b", "E-DATA-03", "$"),
            (str, "\ud800", "E-DATA-04", "$"),
            (Any, {"a": math.nan}, "E-DATA-05", "$.a"),
            (Any, {"a": object()}, "E-STEP-32", "$"),
            (Any, b"\xff", "E-STEP-32", "$"),
            (Any, {b"\xff": 1}, "E-STEP-32", "$"),
            (Any, {"\ud800": 1}, "E-STEP-32", "$"),
            (dict[str, int], {"\ud800": 1}, "E-STEP-32", "$"),
            (dict[str, Any], {"a": {"\ud800": 1}}, "E-STEP-32", "$"),
            (dict[str, Any], {"a": a_cycle()}, "E-STEP-32", "$"),
            (Any, a_cycle(), "E-STEP-32", "$"),
            (Any, deep(100_000), "E-STEP-32", "$"),
        ],
    )
    def test_what_json_can_t_say_is_refused_by_path(self, kind: Any, value: Any, code: str, path: str) -> None:
        """NaN, large integers, NUL and lone surrogates fit the Python type and are still no payload."""
        with pytest.raises(Rejected) as caught:
            one(kind).codec.encode_result(value)
        assert (caught.value.code, caught.value.where) == (code, path)

    def test_an_argument_that_fits_no_more_is_refused_by_path(self) -> None:
        """Old results under changed code are found before the step runs."""
        stored = one(Page).codec.encode_value(page())
        del stored["doc"]["at"]
        stored["color"] = "green"
        with pytest.raises(Rejected) as caught:
            one(Page).codec.decode_args(input={"value": stored})
        assert caught.value.code == "E-STEP-31"
        assert [one["path"] for one in caught.value.details["problems"]] == ["$.value.doc.at", "$.value.color"]

    def test_a_missing_value_is_named(self) -> None:
        """No default and nothing sent."""
        with pytest.raises(Rejected, match="nothing came from input") as caught:
            one(int).codec.decode_args(input={})
        assert caught.value.where == "$.value"

    def test_a_hundred_problems_are_cut(self) -> None:
        """The message stays short, and says how many there are."""
        with pytest.raises(Rejected) as caught:
            one(list[int]).codec.encode_result(["x"] * 100)
        assert len(caught.value.details["problems"]) == 20
        assert str(caught.value.why).endswith("and 95 more")


def team() -> Workflow:
    wf = Workflow("team")

    @wf.step(next="deep", again="plan", max_rounds=3)
    def plan(ctx: Ctx, topic: str, lang: str = "en") -> list[str] | Go | Again | Retry: ...

    @wf.step()
    def deep(ctx: Ctx, doc: Doc, depth: int = 1) -> str: ...

    @wf.step(after=plan)
    def items(ctx: Ctx, plan: list[str] | None) -> list[str]: ...

    @wf.step(after=items, each=True)
    def fetch(ctx: Ctx, item: str) -> Doc: ...

    @wf.step(after=(fetch, plan), join=AtLeast(1), again="draft", spawns=("read", "merge"))
    def draft(
        ctx: Ctx, docs: Results[Doc], plan: list[str] | None, critique: str = ""
    ) -> dict[str, int] | Again | Spawn: ...

    @wf.step()
    def read(ctx: Ctx, when: date) -> int: ...

    @wf.step(after=read, join="all")
    def merge(ctx: Ctx, counts: list[int]) -> dict[str, int]: ...

    return wf


class TestDecisions:
    def test_they_are_encoded_by_the_target_s_types(self) -> None:
        """Names instead of steps, JSON instead of values."""
        wf = team()
        plan, deep, draft, read, merge = (wf.steps[name] for name in ("plan", "deep", "draft", "read", "merge"))
        doc = Doc(id=UUID(int=1), at=datetime(2030, 1, 1, tzinfo=UTC))
        sent = {"id": str(doc.id), "at": "2030-01-01T00:00:00Z", "price": None, "tags": []}
        assert plan.codec.encode_result(Go(deep, doc=doc)) == EncodedGo("deep", {"doc": sent})
        assert plan.codec.encode_result(Go(deep, doc, 2)) == EncodedGo("deep", {"doc": sent, "depth": 2})
        assert plan.codec.encode_result(Again(plan, topic="x")) == EncodedAgain("plan", {"topic": "x"})
        assert plan.codec.encode_result(Retry("2m", "rate limit")) == EncodedRetry(120.0, "rate limit")
        assert plan.codec.encode_result(Retry()) == EncodedRetry(None, "")
        spawn = draft.codec.encode_result(Spawn(read, [date(2030, 1, 1)], then=merge))
        assert spawn == EncodedSpawn("read", ["2030-01-01"], "merge")

    def test_results_are_not_carried_but_read_again(self) -> None:
        """Again of a join may pass its Results on; they come from the barrier."""
        wf = team()
        draft = wf.steps["draft"]
        again = draft.codec.encode_result(Again(draft, docs=Results.of([]), plan=["a"], critique="shorter"))
        assert again == EncodedAgain("draft", {"plan": ["a"], "critique": "shorter"})
        rows = [ResultRow(0, "succeeded", {"id": str(UUID(int=1)), "at": "2030-01-01T00:00:00Z"})]
        args = draft.codec.decode_args(steps={"plan": ["old"]}, reader=ListReader(rows), given=again.input)
        assert (args["plan"], args["critique"], args["docs"][0].id) == (["a"], "shorter", UUID(int=1))

    def test_given_values_go_before_all_others(self) -> None:
        """A second round sees its new input, and the rest as before."""
        plan = team().steps["plan"]
        args = plan.codec.decode_args(input={"topic": "old", "lang": "de"}, given={"topic": "new"})
        assert args == {"topic": "new", "lang": "de"}

    def test_a_wrong_value_in_a_decision_is_refused_by_path(self) -> None:
        """Go and Again carry what the target takes; a bad item is named by its number."""
        wf = team()
        plan, deep, draft, read, merge = (wf.steps[name] for name in ("plan", "deep", "draft", "read", "merge"))
        with pytest.raises(Rejected) as caught:
            plan.codec.encode_result(Go(deep, doc={"id": 3}))
        assert (caught.value.code, caught.value.where) == ("E-STEP-32", "$.doc.id")
        with pytest.raises(Rejected) as caught:
            draft.codec.encode_result(Spawn(read, [date(2030, 1, 1), "x"], then=merge))
        assert (caught.value.code, caught.value.where) == ("E-STEP-32", "$[1]")

    def test_undeclared_decisions_are_refused(self) -> None:
        """Another target, another workflow's step of the same name, or the pair of a Spawn swapped."""
        wf, other = team(), team()
        plan, draft, read, merge = (wf.steps[name] for name in ("plan", "draft", "read", "merge"))
        for decision in (Go(draft, None, None), Again(other.steps["plan"], topic="x"), Again(draft, None, None)):
            with pytest.raises(Rejected) as caught:
                plan.codec.encode_result(decision)
            assert caught.value.code == "E-STEP-33"
        with pytest.raises(Rejected) as caught:
            draft.codec.encode_result(Spawn(merge, [], then=read))
        assert caught.value.code == "E-STEP-33"

    def test_they_are_immutable(self) -> None:
        """A decision that was returned is a fact."""
        plan = team().steps["plan"]
        for decision in (Again(plan, topic="x"), Go(plan, topic="x"), Spawn(plan, [], then=plan), Retry()):
            with pytest.raises(AttributeError, match="immutable"):
                decision.step = None
            with pytest.raises(AttributeError, match="immutable"):
                del decision.reason
        with pytest.raises(TypeError):
            Again(plan, topic="x").input["topic"] = "y"
        assert Again(plan, topic="x") == Again(plan, "x") != Again(plan, topic="y")
        assert Again(plan, topic="x") != Go(plan, topic="x")

    def test_too_many_items_are_refused_without_reading_them_all(self) -> None:
        """An endless generator is no reason to run out of memory."""
        plan = team().steps["plan"]
        with pytest.raises(TooLarge, match="more than 100,000 items"):
            Spawn(plan, iter(int, 1), then=plan)


class TestJoins:
    def test_a_list_gets_all_values_at_once(self) -> None:
        """With join="all" a plain list will do."""
        rows = [ResultRow(idx, "succeeded", idx) for idx in range(3)]
        assert team().steps["merge"].codec.decode_args(reader=ListReader(rows)) == {"counts": [0, 1, 2]}

    def test_a_bad_row_is_named_by_its_number(self) -> None:
        """Found when it is read, with the child that it came from."""
        rows = [ResultRow(0, "succeeded", 1), ResultRow(1, "succeeded", "x")]
        with pytest.raises(Rejected, match="child 1 of read") as caught:
            team().steps["merge"].codec.decode_args(reader=ListReader(rows))
        assert caught.value.where == "$.counts[1]"


class TestInput:
    def test_a_good_input_is_returned_as_it_came(self) -> None:
        """Defaults are not filled in: the idempotency of a submission rests on what was sent."""
        assert team().validate_input({"topic": "x"}) == {"topic": "x"}
        assert team().validate_input({"topic": "x", "lang": "de"}) == {"topic": "x", "lang": "de"}

    @pytest.mark.parametrize(
        ("value", "path", "words"),
        [
            ({}, "$.topic", "Field required"),
            ({"topic": 3}, "$.topic", "valid string"),
            ({"topic": "x", "lnag": "de"}, "$.lnag", "did you mean lang?"),
            ([], "$", "object"),
            (None, "$", "object"),
            ("x", "$", "object"),
        ],
    )
    def test_a_bad_input_is_refused_by_path(self, value: Any, path: str, words: str) -> None:
        """E-TASK-02, the place, and what the workflow takes."""
        with pytest.raises(Unprocessable) as caught:
            team().validate_input(value)
        error = caught.value
        assert (error.code, error.where) == ("E-TASK-02", path)
        assert words in str(error)
        assert error.fix == "team takes topic: str, lang: str (optional)"

    def test_what_is_no_json_is_refused_as_such(self) -> None:
        """The codes of payloads stay what they are."""
        with pytest.raises(Unprocessable) as caught:
            team().validate_input({"topic": math.nan})
        assert (caught.value.code, caught.value.where) == ("E-DATA-05", "$.topic")

    def test_first_steps_share_one_input(self) -> None:
        """Each takes what it names; an input is required if one of them needs it."""
        wf = Workflow("two")

        @wf.step()
        def one(ctx: Ctx, topic: str = "x", since: date | None = None) -> None: ...

        @wf.step()
        def other(ctx: Ctx, topic: str, size: int = 3) -> None: ...

        assert wf.input_schema()["required"] == ["topic"]
        assert set(wf.input_schema()["properties"]) == {"topic", "since", "size"}
        assert wf.encode_input(topic="a", since=date(2030, 1, 2)) == {"topic": "a", "since": "2030-01-02"}
        assert one.codec.decode_args(input={"topic": "a", "since": "2030-01-02", "size": 3}) == {
            "topic": "a",
            "since": date(2030, 1, 2),
        }
        with pytest.raises(Unprocessable, match=r"\$\.since"):
            wf.encode_input(topic="a", since="2030-01-02")

    def test_a_workflow_without_input(self) -> None:
        """It takes the empty object only."""
        wf = Workflow("none")

        @wf.step()
        def plan(ctx: Ctx) -> None: ...

        assert wf.validate_input({}) == {}
        with pytest.raises(Unprocessable, match="none takes no input"):
            wf.validate_input({"topic": "x"})
