"""How much of a backlog one micro-batch takes."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.spark.admission import admit, backlog, must_wait
from tidelog.spark.source_options import Admission

SIZES = st.dictionaries(st.tuples(st.just("t"), st.integers(0, 20)), st.integers(0, 10_000))
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(begins=SIZES, sizes=SIZES, most=st.integers(1, 5_000))
def test_nobody_waits_for_ever_and_the_limit_is_kept(begins, sizes, most):
    ends = {where: begins.get(where, 0) + size for where, size in sizes.items()}
    begins = {where: begins.get(where, 0) for where in ends}
    end = admit(begins, ends, Admission(max_offsets=most), {})
    waiting = backlog(begins, ends)
    assert end.keys() == ends.keys()
    assert all(begins[where] < end[where] <= ends[where] for where in waiting)
    taken = sum(end[where] - begins[where] for where in waiting)
    assert taken <= max(most, len(waiting))


def test_partitions_give_in_proportion_to_what_they_have():
    begins = {("t", 0): 100, ("t", 1): 0, ("t", 2): 7}
    ends = {("t", 0): 1000, ("t", 1): 100, ("t", 2): 7}
    assert admit(begins, ends, Admission(max_offsets=100), {}) == {
        ("t", 0): 189,
        ("t", 1): 10,
        ("t", 2): 7,
    }


def test_bytes_are_counted_by_what_records_of_each_partition_weigh():
    begins, ends = {("t", 0): 0, ("t", 1): 0}, {("t", 0): 100, ("t", 1): 100}
    weights = {("t", 0): 10.0, ("t", 1): 90.0}
    end = admit(begins, ends, Admission(max_bytes=1000), weights)
    assert end == {("t", 0): 10, ("t", 1): 10}
    assert admit(begins, ends, Admission(max_bytes=10_000), weights) == ends


def test_a_batch_waits_until_it_is_large_enough_or_old_enough():
    admission = Admission(min_offsets=10, max_delay_ms=1000)
    assert must_wait({("t", 0): 9}, admission, 999)
    assert not must_wait({("t", 0): 10}, admission, 0)
    assert not must_wait({("t", 0): 9}, admission, 1000)
    assert not must_wait({}, Admission(), 0)
