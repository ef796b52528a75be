"""FindCoordinator v0 to v6: there is none yet, and the answer says so.

It is served all the same: librdkafka asks even for plain `assign`, and takes a broker without
this API for one that cannot read LZ4 (wire.md §4, gotchas 5 and 22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call

FIRST_VERSION_WITH_KEYS = 4
NOBODY = -1
TRANSACTION = 1

GROUPS_MESSAGE = "consumer groups are not served yet: assign partitions and keep offsets yourself"
TRANSACTIONS_MESSAGE = "transactions are not served yet: leave transactional.id unset"


def handle(_: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, FindCoordinatorRequest), request
    code = Error.COORDINATOR_NOT_AVAILABLE
    message = TRANSACTIONS_MESSAGE if request.key_type == TRANSACTION else GROUPS_MESSAGE
    if call.version >= FIRST_VERSION_WITH_KEYS:
        coordinators = [
            Coordinator(
                key=key, node_id=NOBODY, port=NOBODY, error_code=code, error_message=message
            )
            for key in request.coordinator_keys
        ]
        call.answer(FindCoordinatorResponse(coordinators=coordinators))
    else:
        call.answer(
            FindCoordinatorResponse(
                error_code=code, error_message=message, node_id=NOBODY, port=NOBODY
            )
        )
