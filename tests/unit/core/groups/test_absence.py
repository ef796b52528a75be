"""How long a member may be silent after its connection broke."""

from tidelog.core.groups.absence import REMEMBERED, Rhythm, Silence, deadline_ms, last_chance_ms

USUAL_MS = 3_000
SESSION_MS = 45_000
HEARD_MS = 1_000_000


def patience_ms(rhythm_ms=None, *, there=False, interrupted=False, session_ms=SESSION_MS):
    silence = Silence(HEARD_MS, rhythm_ms, session_ms, interrupted)
    return deadline_ms(silence, USUAL_MS, client_is_there=there) - HEARD_MS


def test_two_heartbeats_have_to_be_missing():
    assert patience_ms(3_000) == 6_000
    assert patience_ms(10_000) == 20_000


def test_a_fast_rhythm_does_not_make_patience_short():
    assert patience_ms(100) == 2 * USUAL_MS


def test_one_whose_rhythm_is_unknown_has_half_of_its_session():
    assert patience_ms(None) == patience_ms(None, there=True) == 22_500


def test_a_client_that_is_there_has_at_least_a_third_of_the_session():
    assert patience_ms(3_000, there=True) == 15_000
    assert patience_ms(10_000, there=True) == 20_000


def test_one_whose_request_failed_sends_it_again_soon_if_it_lives():
    assert patience_ms(None, interrupted=True) == 2 * USUAL_MS
    assert patience_ms(20_000, interrupted=True, there=True) == 2 * USUAL_MS


def test_no_session_is_prolonged():
    assert patience_ms(8_000, session_ms=10_000) == 10_000
    assert last_chance_ms(Silence(HEARD_MS, None, 6_000), HEARD_MS + 5_900, 500) == HEARD_MS + 6_000


def test_a_last_chance_begins_when_somebody_looks():
    silence = Silence(HEARD_MS, 3_000, SESSION_MS)
    assert last_chance_ms(silence, HEARD_MS + 9_000, 500) == HEARD_MS + 9_500


def test_a_rhythm_is_known_with_the_second_heartbeat():
    rhythm = Rhythm()
    assert rhythm.observed_ms() is None
    rhythm.beat(100)
    assert rhythm.observed_ms() is None
    rhythm.beat(3_100)
    assert rhythm.observed_ms() == 3_000


def test_a_busy_client_is_granted_its_longest_gap_for_a_while():
    rhythm = Rhythm()
    rhythm.beat(0)
    rhythm.beat(9_000)
    for beat in range(1, REMEMBERED):
        rhythm.beat(9_000 + beat * 3_000)
        assert rhythm.observed_ms() == 9_000
    rhythm.beat(9_000 + REMEMBERED * 3_000)
    assert rhythm.observed_ms() == 3_000


def test_the_time_of_a_rebalance_is_no_gap():
    rhythm = Rhythm()
    rhythm.beat(0)
    rhythm.beat(3_000)
    rhythm.pause()
    rhythm.beat(60_000)
    assert rhythm.observed_ms() == 3_000
