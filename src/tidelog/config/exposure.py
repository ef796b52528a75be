"""What strangers could do to a node, by its configuration."""

from typing import Final

from tidelog.config.endpoints import Listener, is_loopback
from tidelog.config.node_config import NodeConfig
from tidelog.core.security.protocols import has_sasl
from tidelog.core.security.tls_settings import ClientAuth

ACCEPTED: Final = "accepted"
KEY: Final = "tidelog.insecure"


def exposed_listeners(config: NodeConfig) -> list[Listener]:
    """Those at which somebody from another machine may do everything without saying who he is.
    None if the operator has accepted that, or if access rules decide."""
    settings = config.settings
    rules_decide = config.has_authorizer and not settings.flag("allow.everyone.if.no.acl.found")
    if rules_decide or settings.text(KEY) == ACCEPTED:
        return []
    reachable = [each for each in config.listeners if not is_loopback(each.host)]
    return [each for each in reachable if _asks_nobody(config, each)]


def warning_of(listener: Listener) -> str:
    where = f"{listener.host or '0.0.0.0'}:{listener.port}"  # noqa: S104 - told, not bound
    return (
        f"ANYBODY who reaches {where} can read, change and delete everything: "
        f"listener {listener.name} asks nobody who he is. `tidelog secure init` makes what is "
        f"needed; {KEY}={ACCEPTED} silences this line."
    )


def _asks_nobody(config: NodeConfig, listener: Listener) -> bool:
    security = config.security.listeners[listener.name]
    if has_sasl(security.protocol):
        return False
    return security.tls is None or security.tls.client_auth is not ClientAuth.REQUIRED
