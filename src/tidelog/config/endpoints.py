"""Addresses as Kafka writes them: `NAME://host:port`, `id@host:port`, `host:port`."""

import ipaddress
import re
from typing import NamedTuple

from tidelog.core.security.protocols import PROTOCOLS

EVERY_INTERFACE = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")  # noqa: S104 - recognised, not bound

HOST = r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._%-]*)"
PORT = r"([0-9]{1,5})"
LISTENER = re.compile(rf"([A-Za-z][A-Za-z0-9_.-]*)://{HOST}:{PORT}")
ADDRESS = re.compile(rf"{HOST}:{PORT}")
VOTER = re.compile(rf"([0-9]{{1,10}})@{HOST}:{PORT}")
PORT_MAX = 65535


class Listener(NamedTuple):
    name: str
    host: str
    """Empty: every interface to listen on, the machine's own name to advertise."""
    port: int
    protocol: str


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int


class Address(NamedTuple):
    host: str
    port: int


def parse_listener(text: str) -> Listener:
    """Without a protocol yet: a map gives it by the name."""
    match = LISTENER.fullmatch(text)
    if match is None or int(match.group(3)) > PORT_MAX:
        raise ValueError(f"{text!r} is not NAME://host:port with a port up to {PORT_MAX}")
    name, host, port = match.groups()
    return Listener(name.upper(), bare(host), int(port), "")


def parse_voter(text: str) -> Voter:
    match = VOTER.fullmatch(text)
    if match is None or not match.group(2) or not 0 < int(match.group(3)) <= PORT_MAX:
        raise ValueError(f"{text!r} is not id@host:port with a port from 1 to {PORT_MAX}")
    node_id, host, port = match.groups()
    return Voter(int(node_id), bare(host), int(port))


def parse_address(text: str) -> Address:
    match = ADDRESS.fullmatch(text)
    if match is None or not match.group(1) or not 0 < int(match.group(2)) <= PORT_MAX:
        raise ValueError(f"{text!r} is not host:port with a port from 1 to {PORT_MAX}")
    host, port = match.groups()
    return Address(bare(host), int(port))


class HttpAddress(NamedTuple):
    host: str
    port: int
    scheme: str
    """`http`, `https`, or nothing if that was left to us."""


def parse_http_address(text: str) -> HttpAddress:
    """To listen on: the host is named, and port 0 lets the system choose."""
    scheme, separator, rest = text.rpartition("://")
    match = ADDRESS.fullmatch(rest)
    known = scheme in ("http", "https") or not separator
    if not known or match is None or not match.group(1) or int(match.group(2)) > PORT_MAX:
        raise ValueError(f"{text!r} is not [https://]host:port with a port up to {PORT_MAX}")
    return HttpAddress(bare(match.group(1)), int(match.group(2)), scheme)


def parse_protocols(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…`"""
    protocols: dict[str, str] = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon or protocol.strip().upper() not in PROTOCOLS:
            raise ValueError(f"{pair!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        if name.strip().upper() in protocols:
            raise ValueError(f"{name.strip()} is there twice")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def is_loopback(host: str) -> bool:
    """Names count as reachable from elsewhere, except the usual one of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bare(host: str) -> str:
    return host.strip("[]")
