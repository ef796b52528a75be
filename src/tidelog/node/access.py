"""The access rules of a node: followed in the metadata log, asked before requests are served."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.access import GuardedMetadata, guards
from tidelog.broker.handlers import forwarded
from tidelog.controller.handlers import envelope
from tidelog.core.metadata.records import (
    AccessControlEntry,
    MetadataRecord,
    RemoveAccessControlEntry,
)
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.principal import Principal
from tidelog.core.types import LogEntry
from tidelog.rpc import Call, Handler
from tidelog.rpc.authorization.gate import Gate
from tidelog.rpc.authorization.guards import guarded
from tidelog.rpc.authorization.table import CONTROLLER, FREE

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.config.node_config import NodeConfig

_METADATA, _ENVELOPE = 3, 58


def authorizer_of(config: "NodeConfig") -> Authorizer | None:
    """None: everybody may do everything."""
    settings = config.settings
    if not config.has_authorizer:
        return None
    named = [each.strip() for each in (settings.text("super.users") or "").split(";")]
    return Authorizer(
        [Principal.parse(each) for each in named if each],
        allow_if_none=settings.flag("allow.everyone.if.no.acl.found"),
    )


class AccessRules:
    """Implements `quorum.listener.MetadataListener`. Told before the node's other listeners, so
    that whoever sees a rule in the metadata is judged by it."""

    __slots__ = ("authorizer",)

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def on_committed(self, entry: LogEntry) -> None:
        if entry.control:
            return
        for record in entry.records:
            if isinstance(record, AccessControlEntry):
                self.authorizer.add(record.acl_id, record.acl)
            elif isinstance(record, RemoveAccessControlEntry):
                self.authorizer.remove(record.acl_id)

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        self.authorizer.load(
            {each.acl_id: each.acl for each in records if isinstance(each, AccessControlEntry)}
        )

    def on_applied(self, offset: int) -> None:
        """Nothing waits for the end of a burst."""

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """Every committed rule was told."""
        self.authorizer.ready = True

    def on_lost(self, epoch: int) -> None:
        """The rules stay what they are."""


def guarded_broker(
    gate: Gate | None, broker: "Broker", handlers: Mapping[int, Handler]
) -> dict[int, Handler]:
    """What the client listeners serve. An API without a row in the table is not served at all."""
    if gate is None:
        return dict(handlers)
    rows = guards(broker)
    judged_elsewhere = FREE | (forwarded.ROWS.keys() - rows.keys())
    served: dict[int, Handler] = {}
    for key, handler in handlers.items():
        if key == _METADATA:
            served[key] = GuardedMetadata(gate, broker, handler).handle
        else:
            served[key] = handler if key in judged_elsewhere else guarded(gate, rows[key], handler)
    return served


def guarded_controller(
    gate: Gate | None, handlers: Mapping[int, Handler], is_active: Callable[[], bool]
) -> dict[int, Handler]:
    """What the controller listener serves, envelopes included."""
    served = dict(handlers)
    if gate is not None:
        for key, handler in handlers.items():
            if key not in FREE:
                served[key] = guarded(gate, CONTROLLER[key], handler)
            if key in envelope.DECIDED:
                served[key] = _while_active(is_active, served[key], handler)
    opened: Handler = partial(envelope.handle, served)
    served[_ENVELOPE] = opened if gate is None else guarded(gate, CONTROLLER[_ENVELOPE], opened)
    return served


def _while_active(
    is_active: Callable[[], bool], guarded_handler: Handler, handler: Handler
) -> Handler:
    """A controller that does not decide says that and nothing else: it may not know all rules, and
    a broker asks the next one only if every item was refused for this reason."""

    def serve(call: Call) -> None:
        (guarded_handler if is_active() else handler)(call)

    return serve
