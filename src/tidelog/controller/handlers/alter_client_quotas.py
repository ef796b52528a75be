"""AlterClientQuotas (49): limits for users, client ids, both together and addresses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core.requests import AdminResponse, AlterQuotaRequest, ControllerResponse
from tidelog.core.security.quota_keys import Entity, entity_of
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas import alter_client_quotas_response as answers
from tidelog.wire.protocol.schemas.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntryData,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterClientQuotasRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        entries = [
            entry_of(entry, expect(response, AdminResponse))
            for entry, response in zip(request.entries, responses, strict=True)
        ]
        call.answer(answers.AlterClientQuotasResponse(entries=entries))

    controller.ask(call, steps_of(request), finish)


def entity_in(entry: EntryData) -> Entity:
    return entity_of((each.entity_type, each.entity_name) for each in entry.entity)


def steps_of(request: AlterClientQuotasRequest) -> list[Step]:
    doubtful = repeated(entity_in(entry) for entry in request.entries)
    return [
        Refused(twice("an entity"))
        if entity_in(entry) in doubtful
        else AlterQuotaRequest(
            entity_in(entry),
            tuple((each.key, None if each.remove else each.value) for each in entry.ops),
            request.validate_only,
        )
        for entry in request.entries
    ]


def entry_of(entry: EntryData, response: AdminResponse) -> answers.EntryData:
    return answers.EntryData(
        error_code=response.error,
        error_message=said(response.message),
        entity=[
            answers.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ],
    )
