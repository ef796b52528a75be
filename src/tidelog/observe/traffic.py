"""Totals that the hot path counts itself, because they cannot be read off any state."""


class Traffic:
    """Plain numbers since the start of the process. Handlers add to them."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
        "throttled_connections",
        "throttled_fetches",
        "throttled_ms",
        "throttled_mutations",
        "throttled_produces",
        "throttled_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        """Of records that clients appended."""
        self.bytes_out = 0
        """Of records that consumers were sent."""
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.throttled_produces = 0
        """Requests behind which their client has to wait, by its quota."""
        self.throttled_fetches = 0
        self.throttled_mutations = 0
        """Topics that were refused because of a quota."""
        self.throttled_connections = 0
        self.throttled_requests = 0
        """Because of the time that earlier ones took."""
        self.throttled_ms = 0
        """How long connections were not read, all together."""
