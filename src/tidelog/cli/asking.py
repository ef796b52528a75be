"""What every command that asks a cluster shares: `-b`, `--timeout`, and how refusals are told."""

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from tidelog.cli.durations import DURATION
from tidelog.cli.failure import ERROR, UNREACHABLE, USAGE, CommandError
from tidelog.client import (
    BadProperties,
    Client,
    ClusterUnreachable,
    KafkaError,
    NotTrusted,
    parse_bootstrap,
)
from tidelog.config.properties import PropertiesError, parse_properties
from tidelog.core.errors import Error
from tidelog.host.ports import NetworkError

Result = TypeVar("Result")

ENVIRONMENT = "TIDELOG_BOOTSTRAP_SERVERS"
COMMAND_CONFIG = "TIDELOG_COMMAND_CONFIG"

ADVICE: dict[int, str] = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: "tidelog topic list",
    Error.TOPIC_ALREADY_EXISTS: "tidelog topic list",
    Error.INVALID_TOPIC_EXCEPTION: "a name of letters, digits, dots, dashes and underscores",
    Error.INVALID_PARTITIONS: "tidelog topic describe TOPIC",
    Error.INVALID_REPLICATION_FACTOR: "tidelog cluster health, or a smaller -r",
    Error.INVALID_CONFIG: "tidelog config list",
    Error.NOT_ENOUGH_REPLICAS: "tidelog cluster health",
    Error.LEADER_NOT_AVAILABLE: "tidelog cluster health",
    Error.NOT_CONTROLLER: "tidelog cluster describe",
    Error.OFFSET_OUT_OF_RANGE: "--from start",
    Error.MESSAGE_TOO_LARGE: "smaller records, or a larger max.message.bytes of the topic",
    Error.UNSUPPORTED_VERSION: "tidelog cluster apis",
    Error.GROUP_ID_NOT_FOUND: "tidelog group list",
    Error.NON_EMPTY_GROUP: "tidelog group describe GROUP",
    Error.INCONSISTENT_GROUP_PROTOCOL: "another group: its members use another protocol",
    Error.COORDINATOR_NOT_AVAILABLE: "tidelog cluster health",
    Error.TRANSACTIONAL_ID_NOT_FOUND: "tidelog txn list",
    Error.SECURITY_DISABLED: "authorizer.class.name in the server.properties of every node",
    Error.CLUSTER_AUTHORIZATION_FAILED: "--command-config of somebody who may, or a super user",
    Error.TOPIC_AUTHORIZATION_FAILED: "tidelog acl list --topic TOPIC, as an administrator",
    Error.GROUP_AUTHORIZATION_FAILED: "tidelog acl list --group GROUP, as an administrator",
    Error.RESOURCE_NOT_FOUND: "tidelog user list",
    33: "another sasl.mechanism in --command-config",
    58: "sasl.username and sasl.password in --command-config",
    Error.REQUEST_TIMED_OUT: "tidelog cluster health, or a longer --timeout",
}


class Asking(NamedTuple):
    """How to reach the cluster, and how long to try."""

    bootstrap: str | None
    timeout_ms: int
    properties: Mapping[str, str] = {}
    """Of `--command-config`."""

    def __repr__(self) -> str:
        """Passwords never reach a log or a traceback."""
        names = ", ".join(sorted(self.properties)) or "no properties"
        return f"Asking({self.bootstrap}, {self.timeout_ms} ms, {names})"

    @property
    def names_cluster(self) -> str | None:
        """The address that was given, or that of the environment; None: whichever runs here."""
        given = self.bootstrap or self.properties.get("bootstrap.servers")
        return given or os.environ.get(ENVIRONMENT)

    def located(self) -> "Asking":
        """With an address: the one that was named, or that of the cluster that runs in this
        directory, with the login of its administrator."""
        given = self.names_cluster
        if given:
            return self._replace(bootstrap=given)
        from tidelog.cli.local.home import running_cluster

        running = running_cluster()
        if running is None:
            raise CommandError(
                "no cluster to ask",
                why=f"no -b, no {ENVIRONMENT}, and none runs in this directory",
                advice="tidelog up --brokers 3 --detach    or    -b host:port",
                code=UNREACHABLE,
            )
        properties = {**running.properties, **self.properties}
        return self._replace(bootstrap=running.bootstrap_servers, properties=properties)

    def run(self, work: Callable[[Client], Awaitable[Result]]) -> Result:
        """Do it with a client; refusals and silence become errors with an exit code."""
        located = self.located()
        bootstrap = located.bootstrap or ""
        try:
            parse_bootstrap(bootstrap)
        except ValueError as reason:
            raise CommandError(
                "wrong value for --bootstrap",
                why=str(reason),
                advice="-b 127.0.0.1:9092",
                code=USAGE,
            ) from None

        async def guarded() -> Result:
            async with Client(
                bootstrap, timeout_ms=self.timeout_ms, properties=located.properties
            ) as client:
                return await work(client)

        try:
            return asyncio.run(guarded())
        except KafkaError as error:
            raise refused(error) from None
        except ClusterUnreachable as error:
            raise unreachable(error) from None
        except NotTrusted as error:
            raise CommandError(
                "the connection is not secure",
                why=str(error),
                advice="ssl.ca.location in --command-config, and the host name of the certificate",
                code=UNREACHABLE,
            ) from None
        except BadProperties as error:
            raise CommandError(
                "wrong properties", why=str(error), advice="--command-config FILE", code=USAGE
            ) from None
        except NetworkError as error:
            raise CommandError(
                "a broker does not answer",
                why=str(error),
                advice="tidelog cluster health",
                code=UNREACHABLE,
            ) from None


def refused(error: KafkaError, *, advice: str | None = None) -> CommandError:
    why = error.message or "the broker gave no reason"
    usual = ADVICE.get(error.error, "tidelog cluster health")
    return CommandError(error.label, why=why, advice=advice or usual, code=ERROR)


def unreachable(error: ClusterUnreachable) -> CommandError:
    return CommandError(
        f"{error.addresses} cannot be reached",
        why=error.reason,
        advice="tidelog ps, or another -b host:port; if it wants TLS or a login, "
        "--command-config FILE",
        code=UNREACHABLE,
    )


def asks_cluster(function: Any) -> Any:
    """`-b` and `--timeout`, given to the command together as `asking`."""

    @functools.wraps(function)
    def wrapped(
        bootstrap: str | None, timeout_ms: int, command_config: str | None, **rest: Any
    ) -> Any:
        properties = read_command_config(command_config)
        return function(asking=Asking(bootstrap, timeout_ms, properties), **rest)

    wrapped = click.option(
        "--timeout",
        "timeout_ms",
        type=DURATION,
        default="15s",
        show_default=True,
        help="How long to try.",
    )(wrapped)
    wrapped = command_config_file_option(wrapped)
    return click.option(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="Brokers to begin with; the cluster that runs in this directory if not given.",
    )(wrapped)


def command_config_file_option(function: Any) -> Any:
    return click.option(
        "--command-config",
        metavar="FILE",
        envvar=COMMAND_CONFIG,
        help="Properties of a Kafka client: security.protocol, sasl.…, ssl.…, bootstrap.servers.",
    )(function)


def command_config_option(function: Any) -> Any:
    """The properties in the file, given to the command as `login`."""

    @functools.wraps(function)
    def wrapped(command_config: str | None, **rest: Any) -> Any:
        return function(login=read_command_config(command_config), **rest)

    return command_config_file_option(wrapped)


def read_command_config(path: str | None) -> dict[str, str]:
    return read_properties_file(path, "security.protocol=SASL_SSL")


def read_properties_file(path: str | None, example: str) -> dict[str, str]:
    """The properties in a file; none without one."""
    if path is None:
        return {}
    try:
        text = Path(path).read_text("utf-8")
        return {each.key: each.value for each in parse_properties(text, path).entries}
    except (OSError, UnicodeDecodeError, PropertiesError) as reason:
        raise CommandError(
            f"cannot read {path}",
            why=getattr(reason, "strerror", None) or str(reason),
            advice=f"{example}, one property in a line",
            code=USAGE,
        ) from None


def confirm(question: str, *, yes: bool, advice: str) -> None:
    """Nothing is destroyed without a word; off a terminal that word is --yes."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            "not done without --yes",
            why="nobody is there to be asked: the input is not a terminal",
            advice=advice,
            code=USAGE,
        )
    if not click.confirm(question, err=True):
        raise click.Abort


def parse_partition(text: str) -> tuple[str, int]:
    """`orders-0`: the topic and the number."""
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        raise CommandError(
            f'"{text}" names no partition',
            why="a partition is a topic, a dash and a number",
            advice=f"{text.strip('-') or 'orders'}-0",
            code=USAGE,
        )
    return topic, int(number)
