"""What must be true of the history of all clients, once the run is over."""

from collections.abc import Callable

from tidelog.sim.nodes.clients.history import History

NOT_AT_ITS_OFFSET = "N1 acknowledged records are read at their offsets"
TWICE = "N2 a numbered record is there once"
ORDER = "N3 records of a writer keep their order"
OUT_OF_PLACE = "N7 what is read was written there"

Report = Callable[[str, str], None]


def judge_history(history: History, report: Report) -> int:
    """Compare what clients were told with what was found; how many records are lost."""
    lost = _judge_acknowledged(history, report)
    _judge_found(history, report)
    _judge_order(history, report)
    return lost


def _judge_acknowledged(history: History, report: Report) -> int:
    found = history.found
    lost = [value for value in history.acknowledged if value not in found]
    if lost:
        report(NOT_AT_ITS_OFFSET, f"{len(lost)} acknowledged records are gone: {lost[:5]}")
    for value, place in history.acknowledged.items():
        if value in found and place not in found[value]:
            report(NOT_AT_ITS_OFFSET, f"{value!r} acknowledged at {place}, found at {found[value]}")
    return len(lost)


def _judge_found(history: History, report: Report) -> None:
    for value, places in history.found.items():
        sent = history.sent.get(value)
        if sent is None:
            report(OUT_OF_PLACE, f"nobody wrote {value!r}, found at {places}")
            continue
        for place in places:
            if place[:2] != (sent.topic, sent.partition):
                report(OUT_OF_PLACE, f"{value!r} of {sent} found at {place}")
        if sent.once and len(places) > 1:
            report(TWICE, f"{value!r} at {places}")


def _judge_order(history: History, report: Report) -> None:
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for value, place in sorted(
        history.acknowledged.items(), key=lambda item: history.sent[item[0]][:2]
    ):
        sent = history.sent[value]
        lane = (sent.writer, place.topic, place.partition)
        previous = last.get(lane)
        if previous is not None and previous[1] >= place.offset:
            report(ORDER, f"{value!r} at {place.offset}, {previous[0]} before it at {previous[1]}")
        last[lane] = (sent.number, place.offset)
