"""Subscriptions to the metrics of clients (KIP-714): which, from whom, how often.

They can be made, looked at and removed. Nothing is collected: GetTelemetrySubscriptions is not
served, so no client sends anything.
"""

from tidelog.core.metadata.topic_configs import IntConfig, misfit, shown, split_list

INTERVAL_MS = "interval.ms"
METRICS = "metrics"
MATCH = "match"

INTERVAL = IntConfig(300_000, at_least=100, at_most=3_600_000)
DEFAULTS: dict[str, str] = {INTERVAL_MS: str(INTERVAL.default), MATCH: "", METRICS: ""}
LISTS = (METRICS, MATCH)

MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_client_metrics_config(name: str, value: str) -> str | None:
    """The reason why no subscription can have this setting, or None."""
    if name not in DEFAULTS:
        return f"no setting {shown(name)} of client metrics; there are {', '.join(DEFAULTS)}"
    if name == INTERVAL_MS:
        expected = misfit(INTERVAL, value.strip())
        return f"{name} must be {expected}, not {shown(value)}" if expected is not None else None
    if name == MATCH:
        for item in split_list(value):
            selector, equals, pattern = item.partition("=")
            if selector.strip() not in MATCHED or not equals or not pattern.strip():
                return f"{name} must be name=pattern,… of {', '.join(MATCHED)}, not {shown(item)}"
    return None


def list_default(name: str) -> str | None:
    """The default of a setting that is a list; None if it is none."""
    return "" if name in LISTS else None
