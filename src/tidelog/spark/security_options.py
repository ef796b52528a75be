"""`kafka.security.protocol`, `kafka.sasl.…` and `kafka.ssl.…`: how connections are secured.

Some of the values are secrets. No message and no `repr` has a value of theirs.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client import ClientError, KafkaError, NotTrusted
from tidelog.client.security import (
    OF_PROTOCOL,
    BadProperties,
    check_properties,
    is_of_security,
)
from tidelog.core.errors import Error
from tidelog.spark.failure import InvalidOption

PREFIX: Final = "kafka."
BOOTSTRAP: Final = "kafka.bootstrap.servers"
_PROPERTY = re.compile(r"(?<![\w.])(?=security\.protocol|sasl\.|ssl\.)")

UNREACHABLE_ADVICE: Final = (
    "check kafka.bootstrap.servers and kafka.security.protocol, and that the brokers run"
)
LOGIN_ADVICE: Final = "check kafka.sasl.mechanism, and the user and password of kafka.sasl.…"
TRUST_ADVICE: Final = (
    "check kafka.ssl.truststore.location, and that the brokers' certificates name their hosts"
)
CERTIFICATE_ADVICE: Final = (
    "check kafka.ssl.keystore.location: the brokers do not accept the certificate there"
)
GROUP_ADVICE: Final = (
    "name a group that this user may read with kafka.group.id, or leave it and sourceId out"
)
RULE_ADVICE: Final = "ask an administrator of the cluster for an access rule (ACL) that allows it"
LOGIN_CODES: Final = frozenset((33, 34, 58))
"""UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED."""
RULE_CODES: Final = frozenset(
    (
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)


class Security(NamedTuple):
    """What a process needs to connect. Goes to tasks; shows names, never values."""

    given: tuple[tuple[str, str], ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.given)

    def __repr__(self) -> str:
        return f"Security({', '.join(name for name, _ in self.given)})"


class Access(NamedTuple):
    """Where a cluster is, and how connections to it are secured."""

    bootstrap: str
    security: Security = Security()

    def options(self) -> dict[str, str]:
        """Of a reader or a writer."""
        named = {PREFIX + name: value for name, value in self.security.given}
        return {BOOTSTRAP: self.bootstrap, **named}


def security_in(properties: Mapping[str, str]) -> Security:
    """Those that are about security, among the properties of a client."""
    return Security(tuple(sorted(each for each in properties.items() if is_of_security(each[0]))))


def checked_security(kafka: Mapping[str, str]) -> Security:
    """From `kafka.…` options without their prefix; InvalidOption names the one that is wrong."""
    security = security_in(kafka)
    if security.given and OF_PROTOCOL not in kafka:
        raise InvalidOption(
            f"the option kafka.{security.given[0][0]} is given without kafka.{OF_PROTOCOL},"
            " so connections would not be secured",
            f"say kafka.{OF_PROTOCOL}=SASL_SSL, or PLAINTEXT if that is meant",
        )
    try:
        check_properties(security.properties)
    except BadProperties as error:
        raise invalid(error) from None
    return security


def invalid(error: BadProperties) -> InvalidOption:
    words = _PROPERTY.sub(PREFIX, " ".join(str(error).split()))
    if ".location=" in words:
        return InvalidOption(
            f"the option {words}", "driver and executors must all be able to read the file there"
        )
    return InvalidOption(f"connections cannot be secured: {words}", "see Spark in docs/security.md")


def advice_for(error: ClientError) -> str | None:
    """What to do about a refusal that has to do with security; None for any other error."""
    if isinstance(error, NotTrusted):
        return CERTIFICATE_ADVICE if " alert " in str(error) else TRUST_ADVICE
    code = error.error if isinstance(error, KafkaError) else None
    if code in LOGIN_CODES:
        return LOGIN_ADVICE
    if code == Error.GROUP_AUTHORIZATION_FAILED:
        return GROUP_ADVICE
    return RULE_ADVICE if code in RULE_CODES else None
