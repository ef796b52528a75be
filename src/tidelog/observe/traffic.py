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
