"""The requests of the inspector can be sent: in every version, whatever is drawn."""

from random import Random

import pytest

from tidelog.core.metadata.placement import PlacementBroker, place
from tidelog.sim.nodes.clients.inspector import bears_spare_broker
from tidelog.sim.nodes.clients.sensible import (
    CONTROLLER,
    REQUESTS,
    SPARE,
    SPARE_REGISTERS,
    TOGETHER,
    Drawn,
    Sensible,
    message_of,
)
from tidelog.sim.nodes.cluster_plan import RACKS, ClusterPlan
from tidelog.wire.protocol import Listener, Release, RequestHeader, encode_request, offered
from tidelog.wire.protocol.apis import API_BY_KEY, request_class

TOPIC_ID = bytes(16)

each_row = pytest.mark.parametrize(
    "request_row", [*REQUESTS, *TOGETHER, SPARE_REGISTERS], ids=lambda row: API_BY_KEY[row.key].name
)


def unknown_fields(values, of):
    """The fields that are given and that the request does not have."""
    if isinstance(values, Drawn):
        values = list(values.values)
    if isinstance(values, list):
        return {name for each in values for name in unknown_fields(each, of)}
    if not isinstance(values, dict):
        return set()
    rows = {row.name: row for row in of.__fields__}
    unknown = {name for name in values if name not in rows}
    for name in values.keys() & rows.keys():
        if isinstance(rows[name].kind, type):
            unknown |= unknown_fields(values[name], rows[name].kind)
    return unknown


@each_row
def test_every_version_of_a_request_can_be_encoded(request_row: Sensible):
    kind = request_class(request_row.key)
    listener = Listener.CLUSTER if request_row.to == CONTROLLER else Listener.CLIENT
    span = offered(API_BY_KEY[request_row.key], listener, Release.FULL)
    for version in range(max(span.first, kind.__versions__.first), span.last + 1):
        header = RequestHeader(request_row.key, version, 1, "inspector")
        for seed in range(5):
            drawn = message_of(kind, version, request_row.values, Random(seed), TOPIC_ID)
            assert encode_request(header, drawn)


def in_three(row: Sensible) -> bool:
    """Resources of settings stand in three requests, of which each takes its own fields."""
    return row.key in (32, 33, 44)


@each_row
def test_no_field_is_misspelt(request_row: Sensible):
    shared = (
        {"config_operation", "configs", "configuration_keys"} if in_three(request_row) else set()
    )
    assert unknown_fields(request_row.values, request_class(request_row.key)) <= shared


@pytest.mark.parametrize("racks", [(), RACKS])
def test_a_spare_broker_is_registered_only_where_it_gets_no_replicas(racks):
    names = racks or (None, None, None)
    brokers = [PlacementBroker(number, rack) for number, rack in enumerate(names[:3], start=1)]
    spare = PlacementBroker(SPARE, None, fenced=True)
    placed = place([*brokers, spare], 30, 3, Random(1).randrange)
    gets_some = any(SPARE in replicas for replicas in placed)
    assert bears_spare_broker(ClusterPlan(3, 3, racks=racks)) == (not gets_some)
