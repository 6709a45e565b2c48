"""Local queues: order, bounds, and offsets that move only past what is done."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from stanchion.bus.local_queue import LocalQueues
from stanchion.bus.messages import Record

A, B, C = ("t", 0), ("t", 1), ("u", 0)
MIB = 1024 * 1024


def records(place: tuple[str, int], offsets: range | list[int], size: int = 0) -> list[Record]:
    return [Record(place[0], place[1], offset, 0, None, [], b"x" * size) for offset in offsets]


def queues(high: int = 100, low: int = 10, most_bytes: int = MIB) -> LocalQueues:
    made = LocalQueues(high, low, most_bytes)
    made.assign([A, B])
    return made


class TestCommitting:
    def test_stops_before_the_first_record_that_is_not_done(self) -> None:
        """With 0 in hand and 1 to 19 done, a crash must bring 0 back."""
        made = queues()
        made.put(A, records(A, range(20)))
        taken = made.take(100, 0)
        made.done(taken[1:])
        assert made.uncommitted() == {}
        made.done(taken[:1])
        assert made.uncommitted() == {A: 20}

    def test_names_only_what_moved(self) -> None:
        """An idle consumer commits nothing."""
        made = queues()
        made.put(A, records(A, range(3)))
        made.done(made.take(2, 0))
        offsets = made.uncommitted()
        made.committed(offsets)
        assert (offsets, made.uncommitted()) == ({A: 2}, {})
        made.done(made.take(2, 0))
        assert made.uncommitted() == {A: 3}

    def test_knows_that_offsets_have_gaps(self) -> None:
        """Compaction and transactions leave holes."""
        made = queues()
        made.put(A, records(A, [5, 9, 40]))
        made.done(made.take(2, 0))
        assert made.uncommitted() == {A: 10}

    def test_done_twice_is_done(self) -> None:
        """And a record of the past changes nothing."""
        made = queues()
        made.put(A, records(A, range(3)))
        taken = made.take(3, 0)
        for _ in range(2):
            made.done(taken[:1])
        assert made.uncommitted() == {A: 1}
        assert made.taken == 2

    @given(st.data())
    def test_never_passes_a_record_that_is_not_done(self, data: st.DataObject) -> None:
        """In whatever order records are put, taken and done."""
        made = queues()
        offsets = sorted(data.draw(st.sets(st.integers(0, 60), min_size=1)))
        done: set[int] = set()
        taken: list[Record] = []
        for start in range(0, len(offsets), 7):
            made.put(A, records(A, offsets[start : start + 7]))
            taken += made.take(data.draw(st.integers(1, 9)), 0)
            some = data.draw(st.lists(st.sampled_from(taken), max_size=8)) if taken else []
            made.done(some)
            done |= {record.offset for record in some}
            committable = made.uncommitted().get(A, 0)
            assert {offset for offset in offsets if offset < committable} <= done
            put = offsets[: start + 7]
            assert committable == 1 + max((o for i, o in enumerate(put) if set(put[: i + 1]) <= done), default=-1)


class TestTaking:
    def test_keeps_the_order_within_a_partition_and_is_fair_between_them(self) -> None:
        """A partition with much does not hide one with little."""
        made = queues()
        made.put(A, records(A, range(50)))
        made.put(B, records(B, range(3)))
        taken = made.take(10, 0)
        assert [one.offset for one in taken if one.partition == 1] == [0, 1, 2]
        assert [one.offset for one in taken if one.partition == 0] == list(range(7))

    def test_takes_turns_when_it_takes_one_at_a_time(self) -> None:
        """Neither partition waits for the other to run dry."""
        made = queues()
        for place in (A, B):
            made.put(place, records(place, range(10)))
        assert {made.take(1, 0)[0].partition for _ in range(4)} == {0, 1}

    def test_takes_no_more_than_asked(self) -> None:
        """Whoever has room for three gets three."""
        made = queues()
        for place in (A, B):
            made.put(place, records(place, range(10)))
        assert [len(made.take(most, 0)) for most in (3, 1, 7, 100)] == [3, 1, 7, 9]

    def test_waits_for_the_first_record(self) -> None:
        """And gets it as soon as it comes."""
        made = queues()
        got: list[Record] = []
        waiting = threading.Thread(target=lambda: got.extend(made.take(5, 30)))
        waiting.start()
        made.put(A, records(A, range(2)))
        waiting.join(10)
        assert [one.offset for one in got] == [0, 1]

    def test_a_close_ends_the_wait(self) -> None:
        """Shutdown does not wait for a message."""
        made = queues()
        waiting = threading.Thread(target=made.take, args=(5, 60))
        waiting.start()
        made.close()
        waiting.join(10)
        assert not waiting.is_alive()
        made.put(A, records(A, range(2)))
        assert made.take(5, 60) == []

    def test_wakes_a_loop_that_looks_elsewhere_too(self) -> None:
        """The event of the caller is set with each arrival."""
        wake = threading.Event()
        made = LocalQueues(10, 1, MIB, wake)
        made.put(A, records(A, range(1)))
        assert not wake.is_set()
        made.assign([A])
        made.put(A, records(A, range(1)))
        assert wake.is_set()


class TestBounds:
    def test_a_full_partition_pauses_and_resumes_with_hysteresis(self) -> None:
        """Above the high mark it stops, at the low mark it goes on; the other one flows."""
        made = queues(high=100, low=10)
        made.put(A, records(A, range(101)))
        made.put(B, records(B, range(5)))
        assert made.pauses() == ({A}, set())
        assert made.pauses() == (set(), set())
        made.done(made.take(200, 0)[:50])
        assert made.pauses() == (set(), set())

    def test_what_is_in_hand_counts_too(self) -> None:
        """A handler that takes all and finishes nothing must not fill the memory."""
        made = queues(high=100, low=10)
        made.put(A, records(A, range(101)))
        taken = made.take(200, 0)
        assert made.pauses() == ({A}, set())
        made.done(taken[:90])
        assert made.pauses() == (set(), set())
        made.done(taken[90:91])
        assert made.pauses() == (set(), {A})

    def test_bytes_of_all_partitions_are_bounded_together(self) -> None:
        """A few large messages are as bad as many small ones."""
        made = queues(most_bytes=MIB)
        made.put(A, records(A, range(6), size=100_000))
        assert made.pauses() == (set(), set())
        made.put(B, records(B, range(6), size=100_000))
        assert made.pauses() == ({A, B}, set())
        made.done(made.take(5, 0))
        assert made.pauses() == (set(), set())
        made.done(made.take(3, 0))
        assert made.pauses() == (set(), {A, B})

    def test_a_record_done_out_of_order_frees_nothing_yet(self) -> None:
        """Its offset is still remembered, so the count stays honest."""
        made = queues(high=2, low=1)
        made.put(A, records(A, range(3)))
        taken = made.take(3, 0)
        made.done(taken[1:])
        assert made.pauses() == ({A}, set())
        made.done(taken[:1])
        assert made.pauses() == (set(), {A})


class TestRebalancing:
    def test_a_partition_that_goes_says_what_it_may_still_commit(self) -> None:
        """Done and not committed yet: the next owner need not do it again."""
        made = queues()
        made.put(A, records(A, range(5)))
        made.done(made.take(3, 0))
        assert made.drop([A, C]) == {A: 3}
        assert made.places == {B}
        assert made.take(10, 0) == []

    def test_work_in_hand_of_a_partition_that_went_is_nobodys_business(self) -> None:
        """Also when the partition comes back meanwhile: its offsets start afresh."""
        made = queues()
        made.put(A, records(A, range(5)))
        old = made.take(5, 0)
        made.drop([A])
        made.assign([A])
        made.put(A, records(A, range(5)))
        made.done(old)
        assert made.uncommitted() == {}
        assert made.queued == 5
        made.done(made.take(1, 0))
        assert made.uncommitted() == {A: 1}

    def test_records_of_a_partition_that_is_not_assigned_are_dropped(self) -> None:
        """They were on their way when it went."""
        made = queues()
        made.put(C, records(C, range(5)))
        assert made.take(10, 0) == []

    def test_bytes_are_given_back(self) -> None:
        """A thousand rebalances leave no debt."""
        made = queues(most_bytes=MIB)
        for _ in range(50):
            made.assign([C])
            made.put(C, records(C, range(5), size=100_000))
            taken = made.take(3, 0)
            made.drop([C])
            made.done(taken)
        assert made._bytes == 0
        assert made.empty

    def test_all_can_be_dropped_at_once(self) -> None:
        """When the connection is lost, everything comes again."""
        made = queues()
        made.put(A, records(A, range(5)))
        made.put(B, records(B, range(5)))
        made.done(made.take(10, 0)[:7])
        made.drop()
        assert (made.places, made.queued, made.taken, made.uncommitted()) == (frozenset(), 0, 0, {})
