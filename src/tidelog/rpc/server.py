"""What `Network.listen` needs to serve a table: who a new connection is, and what it may ask."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.security.certificates import CertificateError, read_certificate
from tidelog.core.security.principal import ANONYMOUS, USER, Principal
from tidelog.core.security.principal_rules import PrincipalRules, user_name
from tidelog.host.ports import CloseReason, PeerConnection, RequestHandler, Workers
from tidelog.host.work import Work
from tidelog.rpc.calls import Call
from tidelog.rpc.connection import ApiTable, Connection, Served
from tidelog.rpc.logins import LoginConnection, LoginRefused, Logins


class PeerAuthentication(NamedTuple):
    """How the peers of a listener prove who they are."""

    rules: PrincipalRules = ()
    """From the subject of a certificate to the name of a user, where peers show one."""
    logins: Logins | None = None
    """With SASL; it counts more than a certificate."""


NO_AUTHENTICATION = PeerAuthentication()


def serve(
    table: ApiTable,
    listener: str,
    *,
    on_closed: Callable[[PeerConnection, CloseReason], None] | None = None,
    on_opened: Callable[[Call], None] | None = None,
    work: Work | None = None,
    decoders: Workers | None = None,
    authentication: PeerAuthentication = NO_AUTHENTICATION,
) -> Callable[[PeerConnection], RequestHandler]:
    """For `Network.listen`: every new connection is served from the table. `on_opened` hears of
    it with its first call, which says who the client is; before that call is served. `work` is told
    which request is being served; large ones without records are decoded on `decoders`."""
    served = Served(table, listener, on_closed, on_opened, work or Work(), decoders)

    def accept(connection: PeerConnection) -> RequestHandler:
        if authentication.logins is not None:
            return LoginConnection(connection, served, authentication.logins)
        connection.trusted = True  # nobody to ask for a password
        return Connection(connection, served, owner_of(connection, authentication.rules))

    return accept


def owner_of(connection: PeerConnection, rules: PrincipalRules) -> Principal:
    """Whose certificate it showed. LoginRefused if it is nobody's by the rules."""
    certificate = connection.certificate
    if certificate is None:
        return ANONYMOUS
    try:
        subject = read_certificate(certificate).subject
    except CertificateError as reason:
        raise LoginRefused(str(reason)) from None
    name = user_name(rules, subject)
    if not name:
        raise LoginRefused(f"no rule of ssl.principal.mapping.rules has a user for {subject!r}")
    return Principal(USER, name)
