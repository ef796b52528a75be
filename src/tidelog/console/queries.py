"""What stands in the address of a request."""

from starlette.requests import Request

from tidelog.console.refusal import bad_input

NUMBER_MAX_DIGITS = 18


def number_in(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None or not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_MAX_DIGITS):
        raise bad_input(f"{name}={text[:40]} is not a number", f"{name}={default}")
    return int(text)


def parse_partition(name: str) -> tuple[str, int]:
    """`orders-0`: the topic and the number."""
    topic, _, index = name.rpartition("-")
    if not topic or not (index.isascii() and index.isdigit() and len(index) < 10):
        raise bad_input(f"{name[:80]!r} names no partition", "a topic, a dash and a number")
    return topic, int(index)
