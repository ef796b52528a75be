"""Settings as one listener sees them: its own ones count more than those of all."""

from typing import cast

from tidelog.config.broker_keys import KEYS, LISTENER_PREFIX
from tidelog.config.key_types import Value
from tidelog.config.layers import Finding
from tidelog.config.settings import Settings


class ListenerSettings:
    """`listener.name.internal.ssl.keystore.location` before `ssl.keystore.location`."""

    __slots__ = ("listener", "settings")

    def __init__(self, settings: Settings, listener: str) -> None:
        self.settings = settings
        self.listener = listener

    def value(self, name: str, mechanism: str = "") -> Value:
        """With a mechanism of SASL only what was said for it: a broker has users for each."""
        own = self.settings.of_listener(self.listener, _full(name, mechanism))
        if own is not None:
            return own[1]
        return None if mechanism else self.settings.value(name)

    def text(self, name: str, mechanism: str = "") -> str | None:
        return cast(str | None, self.value(name, mechanism)) or None

    def items(self, name: str) -> tuple[str, ...]:
        return cast(tuple[str, ...] | None, self.value(name)) or ()

    def whole(self, name: str) -> int:
        return cast(int, self.value(name))

    def name_of(self, name: str, mechanism: str = "") -> str:
        """As somebody would set it for this listener alone."""
        return f"{LISTENER_PREFIX}{self.listener.lower()}.{_full(name, mechanism)}"

    def finding(self, name: str, why: str, advice: str, mechanism: str = "") -> Finding:
        own = self.settings.of_listener(self.listener, _full(name, mechanism))
        why = f"listener {self.listener}: {why}"
        if own is not None:
            return Finding(*own[0], why, advice)
        if mechanism:
            blank = self.settings.effective(name).source
            return Finding(self.name_of(name, mechanism), None, blank, why, advice)
        assert name in KEYS, name
        return self.settings.finding(name, why, advice)


def _full(name: str, mechanism: str) -> str:
    return f"{mechanism.lower()}.{name}" if mechanism else name
