"""DescribeClientQuotas (48): the limits that are set, by a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.security.quota_filter import ANY, EXACT, FilterPart, matches
from tidelog.core.security.quota_keys import CLIENT_ID, IP, USER, Entity
from tidelog.wire.protocol.schemas.describe_client_quotas_request import (
    DescribeClientQuotasRequest,
)
from tidelog.wire.protocol.schemas.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.rpc import Call


def handle(metadata: LocalMetadata, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeClientQuotasRequest), request
    parts = tuple(
        FilterPart(each.entity_type, each.match_type, each.match) for each in request.components
    )
    refused = misfit(parts)
    if refused is not None:
        code, reason = refused
        call.answer(
            DescribeClientQuotasResponse(error_code=code, error_message=reason, entries=None)
        )
        return
    entries = [
        entry_of(entity, values)
        for entity, values in metadata.image.client_quotas.items()
        if matches(entity, parts, strict=request.strict)
    ]
    call.answer(DescribeClientQuotasResponse(entries=entries))


def misfit(parts: tuple[FilterPart, ...]) -> tuple[Error, str] | None:
    kinds = [part.kind for part in parts]
    for part in parts:
        if part.kind not in (USER, CLIENT_ID, IP):
            return Error.UNSUPPORTED_VERSION, f"Custom entity type '{part.kind}' not supported"
        if not EXACT <= part.match_type <= ANY:
            return Error.INVALID_REQUEST, f"Unexpected match type: {part.match_type}"
        if part.match_type == EXACT and part.name is None:
            return Error.INVALID_REQUEST, "an exact match needs a name"
    if len(set(kinds)) < len(kinds):
        return Error.INVALID_REQUEST, "a filter names each type of entity once"
    if IP in kinds and len(kinds) > 1:
        reason = "a filter by IP has no other parts"
        return Error.INVALID_REQUEST, reason
    return None


def entry_of(entity: Entity, values: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )
