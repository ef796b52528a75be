"""Handlers behind a gate, asked by whoever a story wants to be."""

from itertools import count

from tidelog.broker.broker import Broker
from tidelog.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.principal import Principal
from tidelog.node.access import guarded_broker, guarded_controller
from tidelog.rpc import Call, Handler
from tidelog.rpc.authorization.gate import Gate, Refusal

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "admin")
CLUSTER = ResourceType.CLUSTER


class Guarded:
    """Who asks is `principal`; the admin is a super user."""

    def __init__(self) -> None:
        self.authorizer = Authorizer([ADMIN])
        self.authorizer.ready = True
        self.principal = ALICE
        self.refusals: list[Refusal] = []
        self._ids = count()

    def gate(self, topic_name=lambda _topic_id: None) -> Gate:
        return Gate(self.authorizer, topic_name, self.refusals.append)

    def of_broker(self, broker: Broker, handlers: dict[int, Handler]) -> dict[int, Handler]:
        def topic_name(topic_id: bytes) -> str | None:
            topic = broker.metadata.image.topics.get(topic_id)
            return None if topic is None else topic.name

        return self._asked_by(guarded_broker(self.gate(topic_name), broker, handlers))

    def of_controller(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        return self._asked_by(guarded_controller(self.gate(), handlers, lambda: True))

    def _asked_by(self, handlers: dict[int, Handler]) -> dict[int, Handler]:
        def asked(handler: Handler) -> Handler:
            def serve(call: Call) -> None:
                call.caller = call.caller._replace(principal=self.principal)
                handler(call)

            return serve

        return {key: asked(handler) for key, handler in handlers.items()}

    def allow(
        self,
        operation: Operation,
        kind: ResourceType = ResourceType.TOPIC,
        name: str = CLUSTER_NAME,
        *,
        permission: Permission = Permission.ALLOW,
        pattern: PatternType = PatternType.LITERAL,
    ) -> bytes:
        acl_id = b"%016d" % next(self._ids)
        self.authorizer.add(
            acl_id, Acl(kind, name, pattern, str(ALICE), "*", operation, permission)
        )
        return acl_id
