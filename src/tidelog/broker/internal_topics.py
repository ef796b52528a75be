"""Topics that belong to the cluster and not to its users."""

INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__tidelog_events")
)
"""Clients leave these out when they take all topics (Spark does), and nobody gets one by asking
for its metadata: whoever owns it creates it, with the settings it needs."""
