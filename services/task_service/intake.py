"""The Kafka intake: commands in batches, each batch one transaction, its offsets committed only after it.

What is wrong with one record never touches its neighbours: it is parked with its reason, and answered when it is known
whom to answer. While the database is away the batch stays in hand and is tried again; nothing is skipped. Order within
a batch: submissions first, then cancels, so that a cancel never overtakes the task it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stanchion.authority.dead_letters import Letter, without_secrets
from stanchion.authority.intake import Intake, Refusal, Repetition
from stanchion.authority.rows import missing
from stanchion.authority.submission import Answer, Prepared, Request
from stanchion.bus.consumer import Consumer
from stanchion.bus.dead_letters import dead_letter
from stanchion.bus.messages import Record
from stanchion.bus.producer import Producer
from stanchion.contracts.commands import CancelTask, SubmitTask
from stanchion.errors import SCHEMA_DIFFERS, Conflict, InvariantViolated, Rejected, StanchionError, Unavailable
from stanchion.runtime import failpoints
from stanchion.runtime.hints import ORCHESTRATOR, RELAY
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .command_reader import CommandReader, Order, Unreadable
from .handlers import Handlers, key_conflict

log = get_logger()

TAKEN = failpoints.declare("intake.taken", "records were taken from the topic, nothing is done with them")
DONE = failpoints.declare("intake.done", "a batch is committed and parked, its offsets are not")


@dataclass(slots=True)
class _Batch:
    """Records in hand, and how far they are."""

    records: list[Record]
    orders: list[tuple[Record, Order]] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    stage: int = 0


@dataclass(frozen=True, slots=True)
class _News:
    """What is to be answered without being accepted, and what is to be parked."""

    letters: list[Letter]
    replies: list[Refusal | Repetition]


_Submission = tuple[Record, Order, Prepared]


class CommandIntake:
    """Takes commands from the topic; `run_once` handles one batch, True when there was one."""

    def __init__(
        self,
        consumer: Consumer,
        reader: CommandReader,
        handlers: Handlers,
        intake: Intake,
        producer: Producer,
        *,
        batch: int,
        service: str,
    ) -> None:
        self.consumer = consumer
        self.reader = reader
        self.handlers = handlers
        self.intake = intake
        self.producer = producer
        self.batch = batch
        self.service = service
        self._in_hand: _Batch | None = None

    def run_once(self) -> bool:
        """Handle the batch in hand, or the next one; raises Unavailable, and keeps it, when that can't be done now."""
        if self._in_hand is None:
            records = self.consumer.take(self.batch)
            if not records:
                return False
            failpoints.hit(TAKEN)
            self._in_hand = _Batch(records)
        batch = self._in_hand
        # Each stage is done once: what is committed is not done again because a later stage has to wait.
        for stage, work in enumerate((self._read, self._commit, self._cancel, self._park)):
            if batch.stage == stage:
                work(batch)
                batch.stage += 1
        failpoints.hit(DONE)
        self.consumer.done(batch.records)
        self._in_hand = None
        return True

    # --- stages ---

    def _read(self, batch: _Batch) -> None:
        batch.orders, batch.letters, batch.refusals = [], [], []
        for record in batch.records:
            read = self._guarded(record)
            if isinstance(read, Unreadable):
                batch.letters.append(read.letter)
                batch.refusals += [read.refusal] if read.refusal else []
            else:
                batch.orders.append((record, read))

    def _guarded(self, record: Record) -> Order | Unreadable:
        try:
            return self.reader.read(record)
        except Exception as error:
            # A bug that one message can reach must not stop the partition for all others.
            _raise_if_passing(error)
            log.error("intake.dead_lettered", place=record.place, exc_info=True)
            return Unreadable(Letter(record, error))

    def _commit(self, batch: _Batch) -> None:
        # Copies: when the database goes away in the middle, this stage begins anew from what was read.
        news = _News(list(batch.letters), list(batch.refusals))
        submissions = self._plan(batch, news)
        if submissions or news.letters or news.replies:
            try:
                self._take_in(submissions, news)
            except StanchionError as error:
                _raise_if_passing(error)
                self._one_by_one(submissions, news, error)
        batch.letters = news.letters

    def _plan(self, batch: _Batch, news: _News) -> list[_Submission]:
        submissions: list[_Submission] = []
        refused: list[tuple[Order, Request, Rejected]] = []
        for record, order in batch.orders:
            if not isinstance(order.command, SubmitTask):
                continue
            who, message_id = order.principal, str(order.asked.envelope.id)
            request = Request(who.tenant_id, order.command, "kafka", who.actor, message_id)
            try:
                submissions.append((record, order, self.handlers.plan(request)))
            except Rejected as error:
                refused.append((order, request, error))
            except Exception as error:
                _raise_if_passing(error)
                log.error("intake.dead_lettered", place=record.place, exc_info=True)
                news.letters.append(Letter(record, error, who.tenant_id))
        outcomes = self.handlers.recognise([(request, error) for _, request, error in refused])
        news.replies.extend(_reply(order, outcome) for (order, _, _), outcome in zip(refused, outcomes, strict=True))
        return submissions

    def _take_in(self, submissions: Sequence[_Submission], news: _News) -> None:
        pairs = [(order.asked, prepared) for _, order, prepared in submissions]
        answers = self.intake.take_in(pairs, news.replies, news.letters, key_conflict())
        self.handlers.hints.publish(RELAY)
        _note(answers, news)

    def _one_by_one(self, submissions: Sequence[_Submission], news: _News, error: StanchionError) -> None:
        """The database refused the batch for one of its members: find it, park it, and accept the others."""
        log.error("intake.dead_lettered", code=error.code, what=error.what, exc_info=error)
        for record, order, prepared in submissions:
            try:
                self._take_in([(record, order, prepared)], _News([], []))
            except StanchionError as fault:
                _raise_if_passing(fault)
                shown = InvariantViolated(fault.code, "the database refuses this command")
                news.letters.append(Letter(record, shown, order.principal.tenant_id))
                news.replies.append(Refusal(order.asked, shown))
        self._take_in([], _News([], news.replies))
        for letter in news.letters:
            self._park_one(letter)

    def _park_one(self, letter: Letter) -> None:
        """A letter that the database refuses is kept without what may be to blame; the topic has all of it."""
        for attempt in (letter, Letter(replace(letter.record, headers=[], key=None), letter.error)):
            try:
                self._take_in([], _News([attempt], []))
            except StanchionError as error:
                _raise_if_passing(error)
                log.warning("intake.dead_lettered", place=letter.record.place, code=error.code, what=error.what)
            else:
                return

    def _cancel(self, batch: _Batch) -> None:
        for record, order in batch.orders:
            if isinstance(order.command, CancelTask):
                try:
                    self._cancel_one(order, order.command)
                except StanchionError as error:
                    _raise_if_passing(error)
                    batch.letters.append(Letter(record, error, order.principal.tenant_id))
                    self._park_one(batch.letters[-1])

    def _cancel_one(self, order: Order, command: CancelTask) -> None:
        state = self.intake.cancel(
            order.asked,
            command,
            actor=order.principal.actor,
            missing=missing("task"),
            too_late=Conflict("E-TASK-05", "the task has ended, or is ending, in another way"),
        )
        self.handlers.hints.publish(RELAY)
        if state in ("cancelling", "cancelled"):
            self.handlers.hints.publish(ORCHESTRATOR)
            metrics.intake_accepted.labels(CancelTask.TYPE).inc()
        else:
            metrics.intake_rejected.labels("E-FIND-01" if state == "missing" else "E-TASK-05").inc()
        log.info("task.cancelling", task=str(command.task_id), state=state, by=order.principal.actor)

    def _park(self, batch: _Batch) -> None:
        """The dead-letter topic has every byte; the table, written with the batch, has it for people."""
        if not batch.letters:
            return
        messages = [dead_letter(without_secrets(x.record), x.error, service=self.service) for x in batch.letters]
        outcomes = self.producer.send_all(messages)
        if waits := [outcome for outcome in outcomes if isinstance(outcome, Unavailable)]:
            raise waits[0]
        # What the broker will never take (too large, with the notes added) stands in the table all the same.


def _reply(order: Order, outcome: Answer | Rejected) -> Refusal | Repetition:
    if isinstance(outcome, Rejected):
        return Refusal(order.asked, outcome)
    if outcome.outcome == "conflict":
        return Refusal(order.asked, key_conflict())
    return Repetition(order.asked, outcome)


def _raise_if_passing(error: Exception) -> None:
    """What passes is waited for. A schema that does not fit is no fault of the message either: nothing is parked for it."""
    if isinstance(error, Unavailable):
        raise error
    if isinstance(error, StanchionError) and error.code == SCHEMA_DIFFERS:
        raise Unavailable(error.code, error.what, fix="stanchion db migrate") from error


def _note(answers: Sequence[Answer], news: _News) -> None:
    conflicts = sum(answer.outcome == "conflict" for answer in answers)
    repeated = sum(isinstance(reply, Repetition) for reply in news.replies)
    accepted = len(answers) - conflicts + repeated
    codes = [reply.error.code for reply in news.replies if isinstance(reply, Refusal)] + ["E-IDEM-01"] * conflicts
    for code in codes:
        metrics.intake_rejected.labels(code).inc()
    for letter in news.letters:
        metrics.intake_dead_lettered.labels(letter.record.topic).inc()
    if accepted:
        metrics.intake_accepted.labels(SubmitTask.TYPE).inc(accepted)
        duplicates = sum(answer.outcome == "duplicate" for answer in answers) + repeated
        log.info("intake.accepted", count=accepted, duplicates=duplicates)
    if codes:
        log.info("intake.rejected", count=len(codes), codes=sorted(set(codes)))
    if news.letters:
        place, reason = news.letters[0].record.place, str(news.letters[0].error)[:200]
        log.warning("intake.dead_lettered", count=len(news.letters), place=place, reason=reason)
