"""Who the node is, where it listens and whom it talks to, out of keys that depend on each other."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tidelog.config.endpoints import (
    EVERY_INTERFACE,
    Address,
    Listener,
    Voter,
    parse_address,
    parse_listener,
    parse_protocols,
    parse_voter,
)
from tidelog.config.layers import Finding
from tidelog.config.settings import Settings
from tidelog.core.security.protocols import PLAINTEXT

Parsed = TypeVar("Parsed")

BROKER = "broker"
CONTROLLER = "controller"

NODE_ID = "node.id"
ROLES = "process.roles"
LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
INTER_BROKER = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"
CONTROLLER_LISTENERS = "controller.listener.names"
VOTERS = "controller.quorum.voters"
BOOTSTRAP = "controller.quorum.bootstrap.servers"


class Topology(NamedTuple):
    node_id: int
    roles: tuple[str, ...]
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_listener: str
    inter_broker_protocol: str
    controller_listeners: tuple[str, ...]
    controller_protocol: str
    """How controllers are reached, by the first of their listeners."""
    voters: tuple[Voter, ...]
    bootstrap_controllers: tuple[Address, ...]


def read_topology(settings: Settings, problems: list[Finding]) -> Topology:
    """As far as it can be read; what cannot is among the problems."""
    problems.extend(identity_problems(settings))
    controllers = tuple(name.upper() for name in settings.items(CONTROLLER_LISTENERS))
    protocols = _protocols(settings, controllers, problems)
    listeners = _listeners(settings, LISTENERS, protocols, problems)
    advertised = _listeners(settings, ADVERTISED, protocols, problems)
    if not settings.is_set(ADVERTISED):
        advertised = listeners
    given = settings.text(INTER_BROKER) or settings.text(INTER_BROKER_PROTOCOL) or PLAINTEXT
    node_id = settings.value(NODE_ID)
    topology = Topology(
        node_id=node_id if isinstance(node_id, int) else -1,
        roles=settings.items(ROLES),
        listeners=listeners,
        advertised=advertised,
        inter_broker_listener=given.upper(),
        inter_broker_protocol=protocols.get(given.upper(), PLAINTEXT),
        controller_listeners=controllers,
        controller_protocol=protocols.get(controllers[0], PLAINTEXT) if controllers else PLAINTEXT,
        voters=_parsed(settings, VOTERS, parse_voter, problems),
        bootstrap_controllers=_parsed(settings, BOOTSTRAP, parse_address, problems),
    )
    if topology.roles:
        problems.extend(listener_problems(settings, topology))
        problems.extend(advertised_problems(settings, topology))
        problems.extend(controller_listener_problems(settings, topology))
        problems.extend(quorum_problems(settings, topology))
    return topology


def identity_problems(settings: Settings) -> Iterator[Finding]:
    if not settings.items(ROLES) and not settings.is_broken(ROLES):
        why = "a node must know what it is"
        yield settings.finding(ROLES, why, "process.roles=broker,controller")
    if not settings.is_set(NODE_ID) and not settings.is_broken(NODE_ID):
        yield settings.finding(NODE_ID, "a node needs a number of its own", "node.id=1")
    if not settings.items("log.dirs") and not settings.is_broken("log.dirs"):
        why = "a node needs a place for its logs"
        yield settings.finding("log.dirs", why, "log.dirs=/var/lib/tidelog")
    for setting, value in settings.given(NODE_ID):
        if value != settings.value(NODE_ID) and setting.name == "broker.id":
            why = f"it is the older name of node.id, which says {settings.value(NODE_ID)}"
            yield Finding(*setting, why, "remove broker.id")


def listener_problems(settings: Settings, topology: Topology) -> Iterator[Finding]:
    names = [listener.name for listener in topology.listeners]
    if len(dict.fromkeys(names)) < len(names):
        why = f"the names {', '.join(names)} are not all different"
        yield settings.finding(LISTENERS, why, "one name per listener")
    ports = [(listener.host, listener.port) for listener in topology.listeners if listener.port]
    if len(dict.fromkeys(ports)) < len(ports):
        why = "two listeners have the same address"
        yield settings.finding(LISTENERS, why, "another port for one of them")
    if settings.is_set(INTER_BROKER) and settings.is_set(INTER_BROKER_PROTOCOL):
        why = f"it says the same as {INTER_BROKER_PROTOCOL}, and only one of them may be set"
        yield settings.finding(INTER_BROKER, why, f"remove {INTER_BROKER_PROTOCOL}")


def advertised_problems(settings: Settings, topology: Topology) -> Iterator[Finding]:
    key = ADVERTISED if settings.is_set(ADVERTISED) else LISTENERS
    if settings.is_broken(LISTENERS, ADVERTISED):
        return
    for listener in topology.advertised:
        if listener.host in EVERY_INTERFACE and not is_private(settings, topology, listener):
            why = f"nobody can connect to {listener.host}, so it cannot be advertised"
            advice = f"advertised.listeners={listener.name}://localhost:{listener.port}"
            yield settings.finding(key, why, advice)
        if key == ADVERTISED and listener.port == 0:
            yield settings.finding(key, "nobody can connect to port 0", "the port to connect to")
    known = [*(listener.name for listener in topology.listeners), *topology.controller_listeners]
    for name in (listener.name for listener in topology.advertised):
        if name not in known:
            why = f"{name} is not among the listeners ({', '.join(known)})"
            yield settings.finding(key, why, "a name from listeners")
    public = [each.name for each in topology.advertised if not is_controller(topology, each)]
    if BROKER in topology.roles and topology.inter_broker_listener not in public:
        why = (
            f"brokers talk over {topology.inter_broker_listener}, which is not advertised by a"
            f" broker listener ({', '.join(public) or 'there is none'})"
        )
        advice = f"{INTER_BROKER}={public[0]}" if public else "listeners=PLAINTEXT://:9092"
        yield settings.finding(INTER_BROKER, why, advice)


def controller_listener_problems(settings: Settings, topology: Topology) -> Iterator[Finding]:
    if settings.is_broken(CONTROLLER_LISTENERS, LISTENERS):
        return
    if not topology.controller_listeners:
        why = "a node must know over which listener to reach the controller"
        yield settings.finding(CONTROLLER_LISTENERS, why, "controller.listener.names=CONTROLLER")
        return
    own = [each.name for each in topology.listeners if is_controller(topology, each)]
    if CONTROLLER in topology.roles and not own:
        why = f"a controller must listen on one of {', '.join(topology.controller_listeners)}"
        advice = f"add {topology.controller_listeners[0]}://:9093"
        yield settings.finding(LISTENERS, why, advice)
    if CONTROLLER not in topology.roles and own:
        why = f"{own[0]} is a controller's listener, and this node is none"
        yield settings.finding(LISTENERS, why, f"remove {own[0]}")


def quorum_problems(settings: Settings, topology: Topology) -> Iterator[Finding]:
    if settings.is_broken(VOTERS, BOOTSTRAP):
        return
    voters = {voter.node_id: voter for voter in topology.voters}
    if not voters and not topology.bootstrap_controllers:
        why = "a node must know where the metadata quorum is"
        yield settings.finding(VOTERS, why, f"{VOTERS}={max(topology.node_id, 0)}@localhost:9093")
    if len(voters) < len(topology.voters):
        yield settings.finding(VOTERS, "a voter is there twice", "every id once")
    if not voters or settings.is_broken(NODE_ID) or topology.node_id < 0:
        return
    listed = ", ".join(map(str, voters))
    if CONTROLLER in topology.roles and topology.node_id not in voters:
        why = f"node.id={topology.node_id} is a controller and not among the voters {listed}"
        advice = f"add {topology.node_id}@host:port, or another node.id"
        yield settings.finding(VOTERS, why, advice)
    if CONTROLLER not in topology.roles and topology.node_id in voters:
        why = f"node.id={topology.node_id} is no controller, but one of the voters {listed}"
        yield settings.finding(NODE_ID, why, "another node.id, or the role controller")


def voter_port_warnings(settings: Settings, topology: Topology) -> Iterator[Finding]:
    """The others will look for this voter where the list says."""
    ports = [each.port for each in topology.listeners if is_controller(topology, each)]
    for voter in topology.voters:
        if voter.node_id == topology.node_id and ports and voter.port not in (*ports, 0):
            why = f"this node is expected at port {voter.port}, but listens on {ports[0]}"
            yield settings.finding(VOTERS, why, f"{voter.node_id}@{voter.host}:{ports[0]}")


def is_controller(topology: Topology, listener: Listener) -> bool:
    return listener.name in topology.controller_listeners


def is_private(settings: Settings, topology: Topology, listener: Listener) -> bool:
    """A controller's listener is advertised only if somebody asks for it: voters name it."""
    return is_controller(topology, listener) and not settings.is_set(ADVERTISED)


def _protocols(
    settings: Settings, controllers: tuple[str, ...], problems: list[Finding]
) -> dict[str, str]:
    try:
        protocols = parse_protocols(settings.text(PROTOCOL_MAP) or "")
    except ValueError as reason:
        problems.append(
            settings.finding(PROTOCOL_MAP, str(reason), "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")
        )
        settings.broken.add(PROTOCOL_MAP)
        return {}
    if not settings.is_set(PROTOCOL_MAP):
        # Kafka does the same: a controller's listener needs no entry while all is plain text.
        for name in controllers:
            protocols.setdefault(name, PLAINTEXT)
    return protocols


def _listeners(
    settings: Settings, key: str, protocols: dict[str, str], problems: list[Finding]
) -> tuple[Listener, ...]:
    found = []
    for listener in _parsed(settings, key, parse_listener, problems):
        protocol = protocols.get(listener.name, "")
        if not protocol and not settings.is_broken(PROTOCOL_MAP) and key == LISTENERS:
            why = f"no security protocol is given for {listener.name}"
            advice = f"add {listener.name}:PLAINTEXT to {PROTOCOL_MAP}"
            problems.append(settings.finding(key, why, advice))
        found.append(listener._replace(protocol=protocol))
    return tuple(found)


def _parsed(
    settings: Settings, key: str, parse: Callable[[str], Parsed], problems: list[Finding]
) -> tuple[Parsed, ...]:
    found = []
    for text in settings.items(key):
        try:
            found.append(parse(text))
        except ValueError as reason:
            advice = f"tidelog config explain {key}"
            problems.append(settings.finding(key, str(reason), advice))
            settings.broken.add(key)
    return tuple(found)
