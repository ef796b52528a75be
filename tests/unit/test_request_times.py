"""How long clients wait for answers, measured on a sample of their requests."""

from support.manual_clock import ManualClock
from tidelog.console.metrics_text import buckets_in, percentile_ms
from tidelog.rpc.request_times import EVERY, LOST_AFTER, RequestTimes


class Slot:
    def __init__(self):
        self.answers = []

    def answer(self, parts):
        self.answers.append(parts)

    def answer_nothing(self):
        self.answers.append(None)


def times_of(clock, concerns=lambda _: True):
    return RequestTimes(clock, concerns)


def noted(times):
    return sum(times.histogram.over)


def test_a_request_is_timed_until_its_answer_which_goes_out_unchanged():
    clock, slot = ManualClock(), Slot()
    times = times_of(clock)
    timed = times.timed(slot, None)
    clock.advance(30)
    timed.answer([b"parts"])
    assert slot.answers == [[b"parts"]]
    assert noted(times) == 1
    assert times.histogram.seconds == 0.03


def test_of_many_requests_one_in_eight_is_timed():
    clock = ManualClock()
    times = times_of(clock)
    for _ in range(10 * EVERY):
        times.timed(Slot(), None).answer_nothing()
    assert noted(times) == 10


def test_requests_of_followers_are_not_those_of_clients():
    times = times_of(ManualClock(), concerns=lambda request: request == "consumer")
    for _ in range(EVERY):
        times.timed(Slot(), "follower").answer([])
    times.timed(Slot(), "consumer").answer([])
    assert noted(times) == 1


def test_a_request_that_is_never_answered_does_not_end_the_measuring():
    clock = ManualClock()
    times = times_of(clock)
    forgotten = times.timed(Slot(), None)
    for _ in range(LOST_AFTER + EVERY):
        times.timed(Slot(), None).answer([])
    assert noted(times) > 0
    before = noted(times)
    forgotten.answer([])  # late: another one is, or was, timed in its place
    assert noted(times) == before


def test_a_chart_reads_the_percentile_of_its_own_api():
    text = "\n".join(
        (
            'tidelog_request_seconds_bucket{le="0.005",request="Produce"} 99.0',
            'tidelog_request_seconds_bucket{le="0.1",request="Produce"} 100.0',
            'tidelog_request_seconds_bucket{le="+Inf",request="Produce"} 100.0',
            'tidelog_request_seconds_bucket{le="0.5",request="Fetch"} 7.0',
            'tidelog_event_loop_delay_seconds_bucket{le="0.01"} 5.0',
        )
    )
    produce = buckets_in(text, "produce_p99_ms")
    assert percentile_ms(produce, {}) == 5
    assert percentile_ms(produce, {0.005: 99.0}) == 100, "only the slow one came since"
    assert buckets_in(text, "fetch_p99_ms") == {0.5: 7.0}
    assert buckets_in(text, "loop_delay_ms") == {0.01: 5.0}
