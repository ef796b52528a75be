"""What counts as granted to somebody who may do nothing."""

import pytest

from tidelog.core.errors import Error
from tidelog.sim.nodes.clients.outcast import grants
from tidelog.wire.protocol.schemas import (
    elect_leaders_response,
    fetch_response,
    produce_response,
    sasl_authenticate_response,
)

REFUSED = Error.TOPIC_AUTHORIZATION_FAILED


def produced(*errors):
    partitions = [produce_response.PartitionProduceResponse(error_code=each) for each in errors]
    topic = produce_response.TopicProduceResponse(name="tides", partition_responses=partitions)
    return produce_response.ProduceResponse(responses=[topic])


def fetched(error):
    partition = fetch_response.PartitionData(error_code=error)
    topic = fetch_response.FetchableTopicResponse(topic="tides", partitions=[partition])
    return fetch_response.FetchResponse(responses=[topic])


@pytest.mark.parametrize(
    ("answer", "granted"),
    [
        (produced(REFUSED), False),
        (produced(REFUSED, Error.NONE), True),
        (fetched(REFUSED), False),
        (fetched(Error.NONE), True),
        (elect_leaders_response.ElectLeadersResponse(error_code=REFUSED), False),
        (elect_leaders_response.ElectLeadersResponse(), True),
        (sasl_authenticate_response.SaslAuthenticateResponse(error_code=58), False),
        (sasl_authenticate_response.SaslAuthenticateResponse(), True),
    ],
)
def test_one_part_without_an_error_is_enough(answer, granted):
    assert grants(answer) is granted
