"""What an operator may tell the controller; the defaults are Kafka's."""

from dataclasses import dataclass, field

from tidelog.core.metadata.broker_configs import BrokerConfigCheck, check_broker_config
from tidelog.core.metadata.group_configs import KAFKAS_LIMITS, GroupLimits
from tidelog.core.metadata.records import MetadataRecord


@dataclass(slots=True)
class ControllerSettings:
    cluster_id: str
    session_timeout_ms: int = 9000
    elr_enabled: bool = True
    """Only for a new cluster: afterwards the feature level in the log decides."""
    min_insync_replicas: int = 1
    default_partitions: int = 1
    default_replication_factor: int = 1
    unclean_default: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_percentage: int = 10
    max_idle_interval_ms: int = 500
    """0 switches the NoOp records off."""
    unclean_check_interval_ms: int = 300_000
    max_records_per_batch: int = 10_000
    features: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """Levels that the release brings along beside those of metadata. A cluster that an earlier
    one created gets what was added since."""
    bootstrap_records: tuple[MetadataRecord, ...] = field(default=(), compare=False)
    """Only for a new cluster: what whoever formatted it wants to be there from the start."""
    group_limits: GroupLimits = KAFKAS_LIMITS
    check_broker_config: BrokerConfigCheck = field(default=check_broker_config, compare=False)
    """A node judges by the keys it knows; settings are equal if their values are."""
