"""What an administrator sees of a cluster's protection: settings of brokers, and rules."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.cli.secure.strangers import Address
from tidelog.client import BrokerView, Client, KafkaError
from tidelog.client.access_admin import AccessAdmin
from tidelog.client.admin import Admin
from tidelog.config.endpoints import (
    EVERY_INTERFACE,
    parse_http_address,
    parse_listener,
    parse_voter,
)
from tidelog.core.metadata.records import RESOURCE_BROKER
from tidelog.core.security.acls import Acl, AclFilter

HTTP_KEY: Final = "tidelog.http.listener"


class Inside(NamedTuple):
    settings: Mapping[int, Mapping[str, str]] = {}
    """Of each broker."""
    listeners: Mapping[Address, str] = {}
    http: Mapping[Address, str] = {}
    acls: tuple[Acl, ...] = ()
    unknown: str = ""
    """Why there is nothing to be seen."""


async def look_inside(client: Client) -> Inside:
    settings: dict[int, dict[str, str]] = {}
    listeners: dict[Address, str] = {}
    http: dict[Address, str] = {}
    for broker in (await client.brokers()).brokers.values():
        entries = await Admin(client).configs(RESOURCE_BROKER, str(broker.id))
        given = {each.name: each.value for each in entries if each.value}
        settings[broker.id] = given
        listeners.update(listeners_of(broker, given))
        if given.get(HTTP_KEY):
            found = parse_http_address(given[HTTP_KEY])
            http[reachable(found.host, broker), found.port] = f"HTTP of node {broker.id}"
    return Inside(settings, listeners, http, await rules(client))


def listeners_of(broker: BrokerView, given: Mapping[str, str]) -> Iterator[tuple[Address, str]]:
    for text in filter(None, given.get("controller.quorum.voters", "").split(",")):
        voter = parse_voter(text.strip())
        yield (voter.host, voter.port), f"controller {voter.node_id}"
    for text in filter(None, given.get("listeners", "").split(",")):
        listener = parse_listener(text.strip())
        host = reachable(listener.host, broker)
        yield (host, listener.port), f"{listener.name} of node {broker.id}"


def reachable(host: str, broker: BrokerView) -> str:
    """A node that listens everywhere is found where clients find it."""
    return broker.host if not host or host in EVERY_INTERFACE else host


async def rules(client: Client) -> tuple[Acl, ...]:
    try:
        return tuple(await AccessAdmin(client).acls(AclFilter()))
    except KafkaError:
        return ()  # no authorizer, which the settings say
