"""AlterClientQuotas: limits for users, client ids, both, and addresses (KIP-546, KIP-612)."""

from ipaddress import ip_address

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.records import ClientQuota
from tidelog.core.requests import AdminResponse, AlterQuotaRequest
from tidelog.core.security.quota_keys import (
    CLIENT_ID,
    IP,
    IP_KEYS,
    USER,
    USER_KEYS,
    Entity,
    QuotaKey,
)


def decide_alter_quota(view: View, request: AlterQuotaRequest) -> Decision:
    """All changes of one entity, or none."""
    reason = misfit_of_entity(request.entity) or misfit_of_changes(request)
    if reason is not None:
        return Decision(AdminResponse(Error.INVALID_REQUEST, reason))
    present = view.image.client_quotas.get(request.entity, {})
    records = tuple(
        ClientQuota(request.entity, key, value)
        for key, value in request.changes
        if present.get(key) != value
    )
    return Decision(AdminResponse(Error.NONE), () if request.validate_only else records)


def misfit_of_entity(entity: Entity) -> str | None:
    types = [kind for kind, _ in entity]
    if not types:
        return "a quota needs an entity"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if len(set(types)) < len(types):
        return f"Duplicate {types[0]} entity"
    if IP in types and len(types) > 1:
        return "Invalid quota entity combination, IP entity should not be combined with others"
    address = dict(entity).get(IP)
    if address is not None and not is_address(address):
        return f"{address} is not a valid IP or resolvable host"
    return None


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def misfit_of_changes(request: AlterQuotaRequest) -> str | None:
    keys = IP_KEYS if IP in dict(request.entity) else USER_KEYS
    for name, value in request.changes:
        known = keys.get(name)
        if known is None:
            return f"Invalid configuration key {name}"
        reason = None if value is None else misfit_of_value(known, value)
        if reason is not None:
            return reason
    return None


def misfit_of_value(key: QuotaKey, value: float) -> str | None:
    if not value > 0 or value == float("inf"):
        return f"Quota {key.name} must be greater than 0"
    if key.whole and value != int(value):
        return f"{key.name} must be a Long value"
    return None
