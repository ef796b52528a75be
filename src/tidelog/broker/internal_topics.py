"""Topics that belong to the cluster and not to its users."""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = frozenset(
    (CONSUMER_OFFSETS, TRANSACTION_STATE, "__cluster_metadata", "__tidelog_events")
)
"""Clients leave these out when they take all topics (Spark does), and nobody gets one by asking
for its metadata: whoever owns it creates it, with the settings it needs."""
