"""Broker keys that can change while a node runs, as the controller is asked to change them."""

from tidelog.config import kafka_keys
from tidelog.config.broker_keys import find_key, nearest_name
from tidelog.config.key_types import Kind, Status
from tidelog.config.values import MisfitError, parse_value, show_value
from tidelog.core.metadata.topic_configs import check_config

LONGEST_SHOWN = 80

LIVE_FOR_A_LISTENER = ("ssl.keystore.location", "ssl.truststore.location")
"""What may change for one listener alone, as `listener.name.internal.ssl.keystore.location`."""


def can_change(name: str) -> bool:
    """Whether a running broker can be given another value of this key."""
    key = find_key(name)
    if key is None:
        return name in kafka_keys.LIVE
    if key.name != name and key.name not in LIVE_FOR_A_LISTENER:
        return False
    return key.live and key.status is not Status.UNSUPPORTED


def check_live_config(name: str, value: str) -> str | None:
    """The reason why a running broker cannot be given this value of this key, or None."""
    key = find_key(name)
    if key is None and name in kafka_keys.ALL:
        return None if can_change(name) else _fixed(name)
    if key is None:
        near = nearest_name(name)
        hint = f", did you mean {near}?" if near is not None else ""
        return f"no broker setting {_shown(name)}{hint}"
    if key.name != name and key.name not in LIVE_FOR_A_LISTENER:
        return f"{name}: Tidelog has no settings for one listener alone"
    if key.status is Status.UNSUPPORTED:
        return f"Tidelog does not support {name}"
    if not can_change(name):
        return _fixed(name)
    try:
        parse_value(key, value, with_units=False)
    except MisfitError as misfit:
        return f"{name} must be {misfit.allowed}, not {_shown(value)}"
    # The default of a topic's setting is read as one, and the limits of topics are narrower.
    return check_config(key.topic_name, value) if key.topic_name is not None else None


def live_list_default(name: str) -> str | None:
    """The default of a key that holds a list; None if it is no list, or not known."""
    key = find_key(name)
    if key is None or key.kind is not Kind.LIST:
        return None
    return show_value(key, key.default) if key.default else ""


def _fixed(name: str) -> str:
    return f"{name} cannot change while a broker runs: set it in its file and restart it"


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…")
