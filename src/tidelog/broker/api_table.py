"""Which module serves which API on a broker's listeners."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from tidelog.broker.handlers import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    forwarded,
    list_config_resources,
)
from tidelog.broker.handlers.metadata import MetadataAnswers
from tidelog.rpc import Handler
from tidelog.wire.protocol import API_VERSIONS, ApiRange, Listener, Release, supported_versions

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

METADATA = 3

SERVED_ELSEWHERE: dict[int, str] = {
    0: "tidelog.broker.handlers.produce",
    1: "tidelog.broker.handlers.fetch",
    2: "tidelog.broker.handlers.list_offsets",
    10: "tidelog.broker.handlers.find_coordinator",
    21: "tidelog.broker.handlers.delete_records",
    22: "tidelog.broker.handlers.init_producer_id",
    23: "tidelog.broker.handlers.offset_for_leader_epoch",
}
"""The data plane. Its modules are imported when the table is made: they import the broker."""


def handlers(broker: Broker) -> dict[int, Handler]:
    """Every API of a broker, by key."""
    served = control_handlers(broker)
    for key, module in SERVED_ELSEWHERE.items():
        served[key] = partial(import_module(module).handle, broker)
    return served


def control_handlers(broker: Broker) -> dict[int, Handler]:
    """The APIs that describe and change the cluster. What is added to the table later is
    advertised too."""
    served: dict[int, Handler] = {
        METADATA: MetadataAnswers(broker).handle,
        32: partial(describe_configs.handle, broker),
        35: partial(describe_log_dirs.handle, broker),
        60: partial(describe_cluster.handle, broker),
        74: partial(list_config_resources.handle, broker),
        75: partial(describe_topic_partitions.handle, broker),
    }
    for key in forwarded.ROWS:
        served[key] = partial(forwarded.handle, broker)

    def ranges() -> list[ApiRange]:
        return supported_versions(Listener.CLIENT, Release.FULL, served)

    served[API_VERSIONS] = partial(api_versions.handle, broker, ranges=ranges)
    return served
