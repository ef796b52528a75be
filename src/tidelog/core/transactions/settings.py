"""The knobs of a transaction coordinator; `config` fills them from the node's settings."""

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    expiration_check_interval_ms: int = 3_600_000
