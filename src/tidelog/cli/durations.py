"""Options that take a duration: `500ms`, `30s`, or a bare number of seconds."""

from typing import Any

import click

from tidelog.config.quantities import parse_duration_ms


class Duration(click.ParamType[int]):
    """Whole milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        try:
            return parse_duration_ms(f"{text}s" if text.isdigit() else text)
        except ValueError as reason:
            self.fail(str(reason), param, ctx)


DURATION = Duration()
