"""From what was seen to sentences: what is open, what is weak, and what is good to know."""

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.cli.acl.options import row_of
from tidelog.cli.output import plural
from tidelog.cli.secure.http_strangers import HTTP_OK, Page
from tidelog.cli.secure.inside import Inside
from tidelog.cli.secure.strangers import Address, Seen
from tidelog.config.endpoints import is_loopback
from tidelog.core.security.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    Permission,
)
from tidelog.core.security.principal import ANONYMOUS

OPEN: Final = "open"
WEAK: Final = "weak"
NOTE: Final = "note"
DAY_MS: Final = 24 * 3_600_000
SOON_MS: Final = 30 * DAY_MS
SHOWN: Final = 5
SECURE_IT: Final = "tidelog secure init, and docs/security.md"


class Told(NamedTuple):
    level: str
    where: str
    text: str
    advice: str = ""


def of_listener(address: Address, name: str, seen: Seen) -> Iterator[Told]:
    where, who = _where(address, name), _who(address)
    if not seen.answers:
        yield Told(NOTE, where, "nobody answers")
        return
    if seen.lets_in and seen.mechanisms:
        text = f"{who} can log in with any name and any password"
        yield Told(OPEN, where, text, "the users of PLAIN in sasl.jaas.config")
    elif seen.lets_in:
        yield _of_anonymous(where, who, seen)
    elif seen.mechanisms:
        yield Told(NOTE, where, f"a login is needed: {', '.join(seen.mechanisms)}")
    elif seen.tls:
        yield Told(NOTE, where, "a client certificate is needed")
    else:
        yield Told(NOTE, where, "something listens that speaks neither Kafka's protocol nor TLS")
        return
    if not seen.tls:
        yield _in_plain_text(address, where)
    if seen.old_tls:
        text = "TLS 1.0 or 1.1 is accepted, which can be broken"
        yield Told(WEAK, where, text, "ssl.enabled.protocols=TLSv1.2,TLSv1.3")
    yield from _of_certificate(where, seen.expires_ms)


def _of_anonymous(where: str, who: str, seen: Seen) -> Told:
    begin = f"{who} gets in without a login"
    if seen.operations is None:
        return Told(OPEN, where, f"{begin}; what he may do there cannot be asked", SECURE_IT)
    rights = []
    if seen.operations:
        rights.append(f"{_listed(seen.operations)} the cluster")
    by_topic = {name: what for name, what in seen.topics.items() if what}
    for operations in dict.fromkeys(by_topic.values()):
        names = [name for name, what in by_topic.items() if what == operations]
        rights.append(f"{_listed(operations)} {_named(names)}")
    if not rights:
        return Told(NOTE, where, f"{begin}, and the rules let him do nothing")
    return Told(OPEN, where, f"{begin} and may {'; '.join(rights)}", SECURE_IT)


def _in_plain_text(address: Address, where: str) -> Told:
    text = "everything crosses the network in plain text"
    if is_loopback(address[0]):
        return Told(NOTE, where, "plain text, on this machine only")
    return Told(WEAK, where, text, "SASL_SSL or SSL in listener.security.protocol.map")


def _of_certificate(where: str, expires_ms: int | None) -> Iterator[Told]:
    if expires_ms is None:
        return
    left_ms = expires_ms - int(time.time() * 1000)
    if left_ms <= 0:
        yield Told(WEAK, where, "its certificate has expired", "tidelog secure rotate")
    elif left_ms < SOON_MS:
        text = f"its certificate expires in {plural(left_ms // DAY_MS, 'day')}"
        yield Told(WEAK, where, text, "tidelog secure rotate")


# ---- HTTP


def of_http(address: Address, name: str, page: Page) -> Iterator[Told]:
    where, who = _where(address, name), _who(address)
    here = is_loopback(address[0])
    if not page.state:
        yield Told(NOTE, where, "nobody answers")
        return
    if page.chaos == HTTP_OK:
        text = f"{who} can cut this node off from others (/chaos)"
        yield Told(OPEN, where, text, "tidelog.chaos.enable=false, or a secured cluster")
    if page.state == HTTP_OK:
        advice = "tidelog.http.loopback.open=false" if here else SECURE_IT
        text = f"{who} reads state, metrics and events without a login"
        yield Told(NOTE if here else OPEN, where, text, advice)
    else:
        yield Told(NOTE, where, "a login is needed")
    if not page.tls and not here:
        advice = f"tidelog.http.listener=https://{address[0]}:{address[1]}"
        yield Told(WEAK, where, "passwords cross the network in plain text", advice)
    yield from _of_certificate(where, page.expires_ms)


# ---- settings and rules


def of_inside(inside: Inside) -> list[Told]:
    if inside.unknown:
        text = f"settings and rules were not looked at: {inside.unknown}"
        return [Told(NOTE, "", text, "--command-config of an administrator")]
    told: list[Told] = []
    for broker, settings in inside.settings.items():
        told += _of_settings(f"node {broker}", settings)
    return told + [each for acl in inside.acls for each in _of_rule(acl)]


def _of_settings(where: str, settings: Mapping[str, str]) -> Iterator[Told]:
    if not settings.get("authorizer.class.name"):
        text = "there are no access rules: whoever gets in may do everything"
        yield Told(WEAK, where, text, "authorizer.class.name, and super.users")
        return
    if settings.get("allow.everyone.if.no.acl.found") == "true":
        text = "everybody may do everything with what no rule speaks of"
        yield Told(OPEN, where, text, "allow.everyone.if.no.acl.found=false")
    names = [each.strip() for each in settings.get("super.users", "").split(";") if each.strip()]
    if str(ANONYMOUS) in names:
        text = "whoever does not log in is a super user"
        yield Told(OPEN, where, text, f"super.users without {ANONYMOUS}")
    if names:
        yield Told(NOTE, where, f"super users, who may do everything: {', '.join(names)}")
    if settings.get("tidelog.chaos.enable") == "true":
        text = "administrators can cut it off from others (/chaos)"
        yield Told(NOTE, where, text, "tidelog.chaos.enable=false in production")


def _of_rule(acl: Acl) -> Iterator[Told]:
    if acl.permission != Permission.ALLOW:
        return
    row = row_of(acl)
    place = "" if acl.host == WILDCARD else f" from {acl.host}"
    may = f"may {row['operation']} {row['resource']} {row['name']}{place}"
    name = acl.principal.partition(":")[2]
    advice = f"tidelog acl remove --user '{name}' --{row['resource']} '{row['name']}'"
    if acl.principal == str(ANONYMOUS):
        yield Told(OPEN, "a rule", f"whoever does not log in {may}", advice)
    elif acl.principal == WILDCARD_PRINCIPAL:
        yield Told(WEAK, "a rule", f"everybody, with a login or where none is asked, {may}", advice)
    elif acl.operation == Operation.ALL and acl.resource_name == WILDCARD:
        yield Told(NOTE, "a rule", f"{acl.principal} {may}")


# ---- words


def _where(address: Address, name: str) -> str:
    return f"{name} ({address[0]}:{address[1]})"


def _who(address: Address) -> str:
    return "anybody on this machine" if is_loopback(address[0]) else "anybody who reaches it"


def _listed(operations: tuple[str, ...]) -> str:
    return ", ".join(each.lower().replace("_", "-") for each in operations)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{plural(len(names), 'topic')} ({', '.join(names[:SHOWN])}{more})"
