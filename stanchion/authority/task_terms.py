"""What each term of a filter means for a row: conditions on tasks, and which index finds them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Numeric,
    Select,
    Text,
    and_,
    any_,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from stanchion.contracts import ids
from stanchion.contracts.filter_values import span_of
from stanchion.contracts.filters import INPUT, WORD, Filter, Term
from stanchion.db import tables
from stanchion.errors import StanchionError
from stanchion.state import TaskState

from .queries import TASK_COLUMNS

Condition = ColumnElement[bool]

OPEN: Final = (TaskState.ACCEPTED, TaskState.RUNNING, TaskState.AWAITING_APPROVAL, TaskState.CANCELLING)
CLOSED: Final = tuple(state for state in TaskState if state not in OPEN)
DEAR: Final = frozenset({WORD, INPUT, "error", "worker", "op"})
"""Kinds that no index serves: they look into values, or into the steps of each task."""
SLACK: Final = timedelta(days=1)
"""Ids carry the clock of whoever made them: how far it may be from the database's."""

_T = tables.task.c
_R = tables.run.c


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which ids is looked: none of them inside."""

    after: UUID | None = None
    before: UUID | None = None

    def conditions(self) -> list[Condition]:
        """On a task's id."""
        low = [] if self.after is None else [_T.task_id > self.after]
        return low if self.before is None else [*low, _T.task_id < self.before]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a filter is looked up: branches that an index serves in order, and the terms that are left for each row."""

    terms: tuple[Term, ...]
    branches: tuple[Condition, ...]
    rest: tuple[Term, ...]

    @property
    def is_dear(self) -> bool:
        """Whether no index serves some of it, so that rows are looked at one by one."""
        return any(term.kind in DEAR or term.values == ("doubtful",) for term in self.rest)


def plan(wanted: Filter) -> Plan:
    """The branches and the rest of a filter that is settled."""
    terms = tuple(_ids_of_words(wanted.terms))
    for choose in (_by_id, _by_key, _by_state, _by_workflow):
        if (found := choose(terms)) is not None:
            used, branches = found
            return Plan(terms, branches, tuple(term for term in terms if term is not used))
    return Plan(terms, (), terms)


def conditions(terms: Iterable[Term], row: Any) -> list[Condition]:
    """What the terms ask of a row of tasks that is joined with its run."""
    return [_condition(term, row) for term in terms]


def bounds(terms: Iterable[Term], since: datetime | None = None) -> Bounds:
    """The ids between which all that fits was born, as far as the terms say: what is older is never looked at."""
    begins, ends = ([since] if since else []), list[datetime]()
    for term in terms:
        if term.name == "created" and not term.negated and len(term.values) == 1:
            begin, end = span_of(term.operator, term.values[0])
            begins += [begin] if begin else []
            ends += [end] if end else []
    return Bounds(_first_id(max(begins) - SLACK) if begins else None, _first_id(min(ends) + SLACK) if ends else None)


def _first_id(moment: datetime) -> UUID:
    milliseconds = max(0, min(int(moment.timestamp() * 1_000), 2**48 - 1))
    return uuid.UUID(int=milliseconds << 80)


# --- what an index finds ---

_Choice = tuple[Term, tuple[Condition, ...]] | None


def _only(terms: Sequence[Term], name: str) -> Term | None:
    return next((term for term in terms if term.name == name and not term.negated), None)


def _by_id(terms: Sequence[Term]) -> _Choice:
    term = _only(terms, "id")
    return None if term is None else (term, (_is_any_of(term.values),))


def _by_key(terms: Sequence[Term]) -> _Choice:
    term = _only(terms, "key")
    return None if term is None else (term, (_T.idempotency_key.in_(term.values),))


def _by_state(terms: Sequence[Term]) -> _Choice:
    term = _only(terms, "state")
    if term is None:
        return _by_flag(terms)
    wanted = dict.fromkeys(term.values)
    branches = [and_(_T.ended_at.is_not(None), _T.state == state) for state in CLOSED if state in wanted]
    if open_ones := [state for state in OPEN if state in wanted]:
        branches.append(and_(_T.ended_at.is_(None), _T.state.in_(open_ones)))
    return term, tuple(branches)


def _by_flag(terms: Sequence[Term]) -> _Choice:
    term = next((term for term in terms if term.name == "is" and term.values == ("open",) and not term.negated), None)
    return None if term is None else (term, (_T.ended_at.is_(None),))


def _by_workflow(terms: Sequence[Term]) -> _Choice:
    term = _only(terms, "workflow")
    if term is None or any("@" in value for value in term.values):
        return None
    return term, tuple(_T.workflow == value for value in dict.fromkeys(term.values))


def _ids_of_words(terms: Iterable[Term]) -> Iterable[Term]:
    for term in terms:
        if term.name == WORD and not term.negated and _uuids(term.values):
            yield Term("id", term.values)
        else:
            yield term


def _uuids(texts: Iterable[str]) -> list[UUID]:
    found = []
    for text in texts:
        for prefix in (ids.TASK, ids.RUN, ids.STEP):
            try:
                found.append(ids.parse(text, prefix))
            except StanchionError:
                continue
            break
    return found


def _is_any_of(texts: Iterable[str]) -> Condition:
    wanted = _uuids(texts)
    step, run = tables.step, tables.run
    of_step = select(_R.task_id).join(step, step.c.run_id == run.c.run_id).where(step.c.step_id.in_(wanted))
    of_run = select(_R.task_id).where(_R.run_id.in_(wanted))
    found = union_all(select(func.unnest(literal(wanted, ARRAY(_T.task_id.type)))), of_run, of_step)
    one_of: Condition = _T.task_id == any_(func.array(found.scalar_subquery()))
    return one_of


# --- what a row must be ---


def _condition(term: Term, row: Any) -> Condition:
    made = _MEANINGS[term.kind](term, row)
    # a comparison with what is not there is neither true nor false: turned around it holds
    return not_(func.coalesce(made, false())) if term.negated else made


def _is(term: Term, row: Any) -> Condition:
    operation = tables.operation.c
    doubtful = exists().where(operation.task_id == row.task_id, operation.state == "unknown")
    known: dict[str, Condition] = {
        "open": row.ended_at.is_(None),
        "ended": row.ended_at.is_not(None),
        "paused": and_(row.ended_at.is_(None), _R.paused_at.is_not(None)),
        "doubtful": doubtful,
    }
    return or_(*(known[value] for value in term.values))


def _workflow(term: Term, row: Any) -> Condition:
    def one(value: str) -> Condition:
        name, at, version = value.partition("@")
        named: Condition = row.workflow == name
        return and_(named, row.version == int(version)) if at else named

    return or_(*(one(value) for value in term.values))


def _tag(term: Term, row: Any) -> Condition:
    tagged: Condition = row.tags.overlap(list(term.values))
    return tagged


def _priority(term: Term, row: Any) -> Condition:
    return or_(*(_compared(row.priority, term.operator, int(value)) for value in term.values))


def _time(name: str) -> Callable[[Term, Any], Condition]:
    def within(term: Term, row: Any) -> Condition:
        column = _R.created_at if name == "run" else getattr(row, name)
        parts = []
        for value in term.values:
            begin, end = span_of(term.operator, value)
            low = [] if begin is None else [column >= begin]
            parts.append(and_(column.is_not(None), *low, *([] if end is None else [column < end])))
        return or_(*parts)

    return within


def _equal(name: str) -> Callable[[Term, Any], Condition]:
    return lambda term, row: getattr(row, name).in_(term.values)


def _id(term: Term, row: Any) -> Condition:
    wanted = _uuids(term.values)
    of_step = exists().where(tables.step.c.step_id.in_(wanted), tables.step.c.run_id == row.run_id)
    return or_(row.task_id.in_(wanted), row.run_id.in_(wanted), of_step)


def _word(term: Term, row: Any) -> Condition:
    return or_(*(part for value in term.values for part in _contains((row.goal, row.idempotency_key), value)))


def _contains(columns: Iterable[Any], text: str) -> list[Condition]:
    return [func.coalesce(column, "").icontains(text, autoescape=True) for column in columns]


def _worker(term: Term, row: Any) -> Condition:
    step, attempt, worker = tables.step.c, tables.attempt.c, tables.worker.c
    named = select(worker.worker_id).where(worker.name.in_(term.values))
    return exists().where(
        step.run_id == row.run_id, attempt.step_id == step.step_id, attempt.worker_id.in_(named.scalar_subquery())
    )


def _op(term: Term, row: Any) -> Condition:
    operation = tables.operation.c
    return exists().where(operation.task_id == row.task_id, operation.kind.in_(term.values))


def _error(term: Term, row: Any) -> Condition:
    step, attempt = tables.step.c, tables.attempt.c

    def one(value: str) -> Condition:
        text = cast(attempt.error["what"].astext, Text)
        of_step = exists().where(
            step.run_id == row.run_id,
            attempt.step_id == step.step_id,
            attempt.error.is_not(None),
            or_(text.icontains(value, autoescape=True), attempt.error["code"].astext == value),
        )
        return or_(*_contains((cast(row.reason, Text),), value), of_step)

    return or_(*(one(value) for value in term.values))


def _input(term: Term, row: Any) -> Condition:
    path = term.name.removeprefix(INPUT).split(".")
    found = row.input[path]
    if not term.operator:
        same: Condition = found.astext.in_(term.values)
        return same
    # only a number may be read as one: the cast of anything else would fail the whole search
    number = case((func.jsonb_typeof(found) == "number", cast(found.astext, Numeric)))
    return or_(*(_compared(number, term.operator, Decimal(value)) for value in term.values))


def _compared(column: Any, operator: str, value: Any) -> Condition:
    compared: Condition = {
        ">": column > value, ">=": column >= value, "<": column < value, "<=": column <= value, "": column == value,
    }[operator]  # fmt: skip
    return compared


_MEANINGS: Final[dict[str, Callable[[Term, Any], Condition]]] = {
    "state": _equal("state"),
    "is": _is,
    "workflow": _workflow,
    "tag": _tag,
    "priority": _priority,
    "created": _time("created_at"),
    "started": _time("run"),
    "ended": _time("ended_at"),
    "changed": _time("updated_at"),
    "by": _equal("submitted_by"),
    "via": _equal("submitted_via"),
    "id": _id,
    "key": _equal("idempotency_key"),
    "worker": _worker,
    "op": _op,
    "error": _error,
    INPUT: _input,
    WORD: _word,
}


def gathering(tenant_id: UUID, way: Plan, within: Bounds, most: int, *, forward: bool) -> Select[Any]:
    """The next `most` tasks that fit, found by whatever indexes narrow most, together, and put in order afterwards."""
    found = select(*TASK_COLUMNS, _R.paused_at).outerjoin(tables.run, _R.run_id == _T.run_id)
    found = found.where(_T.tenant_id == tenant_id, *within.conditions(), *conditions(way.terms, Plain()))
    if way.branches:
        found = found.where(or_(*way.branches))  # as the partial indexes have it: else none of them is thought of
    for term in way.terms:
        if term.name == "tag" and not term.negated:
            tagged = select(func.stanchion.tasks_with_tags(literal(list(term.values), ARRAY(Text))))
            found = found.where(_T.task_id == any_(func.array(tagged.scalar_subquery())))
    # an order that no index has: with one, a search for something rare was planned as a walk over everything
    order = cast(_T.task_id, Text)
    return found.order_by(order.asc() if forward else order.desc()).limit(most)


class Plain:
    """The columns of tasks under the names that `TASK_COLUMNS` gives them."""

    def __getattr__(self, name: str) -> Any:
        return _T["workflow_version" if name == "version" else name]


def window(tenant_id: UUID, branches: Sequence[Condition], within: Bounds, size: int, *, forward: bool) -> Select[Any]:
    """The next `size` tasks that the branches hold, each branch in the order of its index, newest first or `forward`."""
    order = _T.task_id.asc() if forward else _T.task_id.desc()
    columns = (*TASK_COLUMNS, _T.input)

    def one(condition: Condition | None) -> Select[Any]:
        found = select(*columns).where(_T.tenant_id == tenant_id, *within.conditions())
        if condition is not None:
            found = found.where(condition)
        return found.order_by(order).limit(size)

    if len(branches) < 2:
        return one(branches[0] if branches else None)
    merged = union_all(*(select(one(branch).subquery()) for branch in branches)).subquery()
    ordered = merged.c.task_id.asc() if forward else merged.c.task_id.desc()
    return select(merged).order_by(ordered).limit(size)
