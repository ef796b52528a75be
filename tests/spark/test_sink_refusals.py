"""What a user reads when the cluster does not take what a sink writes."""

import pytest

from tidelog.client import KafkaError
from tidelog.core.errors import Error
from tidelog.spark.sink_refusals import is_lasting, told

WHAT = "batch 1 of sink orders is not committed"
NAME = "transactional id tidelog-spark-orders"


@pytest.mark.parametrize("error", [Error.CONCURRENT_TRANSACTIONS, Error.COORDINATOR_NOT_AVAILABLE])
def test_a_refusal_says_which_error_it_was_and_where_to_look(error):
    refused = KafkaError(error, NAME)
    text = str(told(refused, WHAT, "start again"))
    assert f"{WHAT}: {error.name} ({int(error)}): {NAME}" in text
    assert "see `tidelog " in text
    assert not is_lasting(refused), "it passes, so it is tried again first"


def test_an_error_that_nothing_is_known_of_is_named_too():
    text = str(told(KafkaError(Error.INVALID_TXN_STATE, NAME), WHAT, "start again"))
    assert text == f"tidelog: {WHAT}: INVALID_TXN_STATE (48): {NAME}; start again"
