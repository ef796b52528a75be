"""What is wrong with options is said at `load()`, as far as Spark lets a Python source see them."""

from collections.abc import Mapping

from tidelog.spark.source_options import NotForThis, SourceOptions, source_options
from tidelog.spark.topics import compiled


def check_at_load(values: Mapping[str, str]) -> None:
    """Refuse what neither a stream nor a batch takes. Spark does not say here which of the two it
    is going to be; what only one of them refuses is refused when that one is planned."""
    pattern = _options(values).subscription.pattern
    if pattern is not None:
        compiled(pattern)


def _options(values: Mapping[str, str]) -> SourceOptions:
    try:
        return source_options(values, streaming=True)
    except NotForThis:
        return source_options(values, streaming=False)
