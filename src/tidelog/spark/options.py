"""Options as Spark hands them over: strings under names whose case does not count."""

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TypeVar

from tidelog.spark.failure import InvalidOption

Value = TypeVar("Value")

_TRUTH = {"true": True, "false": False}


class Options:
    """Typed access that says which option has which wrong value, and what would be right."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in values.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        """Names in lower case."""
        return iter(self._values)

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name.lower(), default)

    def required(self, name: str, advice: str) -> str:
        value = self._values.get(name.lower(), "").strip()
        if not value:
            raise InvalidOption(f"the option {name} is missing", advice)
        return value

    def truth(self, name: str, default: bool) -> bool:
        return self._parsed(name, default, lambda text: _TRUTH[text.lower()], "true or false")

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int | None:
        """A whole number, not below `least`."""

        def parse(text: str) -> int:
            number = int(text)
            if number < least:
                raise ValueError
            return number

        return self._parsed(name, default, parse, f"a whole number from {least} on")

    def one_of(self, name: str, default: str, allowed: Collection[str]) -> str:
        def parse(text: str) -> str:
            if text.lower() not in allowed:
                raise ValueError
            return text.lower()

        return self._parsed(name, default, parse, f"one of {', '.join(sorted(allowed))}")

    def _parsed(
        self, name: str, default: Value, parse: Callable[[str], Value], wanted: str
    ) -> Value:
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text.strip())
        except (ValueError, KeyError):
            raise InvalidOption(f"the option {name} is {text!r}", f"give {wanted}") from None

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """`kafka.…` without the prefix, in lower case."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix)
        }

    def refuse_unknown(self, known: Collection[str], kafka: Collection[str]) -> None:
        """Every name outside `kafka.…` must be known; says which one is nearest. `kafka` has the
        names that are known behind that prefix, which is easily forgotten."""
        by_lower = {name.lower(): name for name in known}
        by_lower.update((each, each) for each in map("kafka.{}".format, kafka))
        for name in self._values:
            if name in by_lower or name.startswith("kafka."):
                continue
            prefixed = f"kafka.{name}"
            near = get_close_matches(name, by_lower, n=1, cutoff=0.7)
            nearest = prefixed if prefixed in by_lower else by_lower[near[0]] if near else None
            advice = f"did you mean {nearest}?" if nearest else "see docs/spark.md"
            raise InvalidOption(f"there is no option {name}", advice)
