"""Connection settings of one user, in the form that each client library reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.config.properties import write_properties
from tidelog.secure.secret_files import write_secret

MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOL: Final = "SASL_SSL"
PYTHON_NAME: Final = "python.json"
LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Login(NamedTuple):
    """Who connects, and to what."""

    user: str
    password: str
    bootstrap_servers: str
    authority: Path
    """The certificate of the cluster's authority."""


def write_client_files(directory: Path, login: Login) -> list[Path]:
    """One file per kind of client, in a directory that has the name of the user."""
    home = directory / login.user
    home.mkdir(parents=True, exist_ok=True)
    head = f"# User {login.user}. Keep it to yourself: it has a password.\n"
    contents = {
        home / "client.properties": head + write_properties(java_properties(login)),
        home / "librdkafka.properties": head + write_properties(librdkafka_properties(login)),
        home / PYTHON_NAME: _json(python_arguments(login)),
        home / "spark.json": _json(spark_options(login)),
    }
    for path, content in contents.items():
        write_secret(path, content.encode())
    return list(contents)


def java_properties(login: Login) -> dict[str, str]:
    """For Kafka's Java clients and tools, and for `tidelog --command-config`."""
    return {
        "bootstrap.servers": login.bootstrap_servers,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f"{LOGIN_MODULE} required"
        f' username="{login.user}" password="{login.password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(login.authority),
    }


def librdkafka_properties(login: Login) -> dict[str, str]:
    """For confluent-kafka, kcat and everything else that is built on librdkafka."""
    return {
        "bootstrap.servers": login.bootstrap_servers,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "ssl.ca.location": str(login.authority),
    }


def python_arguments(login: Login) -> dict[str, str]:
    """Keyword arguments of kafka-python. aiokafka takes an `ssl_context` in place of the last."""
    return {
        "bootstrap_servers": login.bootstrap_servers,
        "security_protocol": PROTOCOL,
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
        "ssl_cafile": str(login.authority),
    }


def login_of(arguments: Mapping[str, str]) -> Login:
    """Back from the keyword arguments."""
    return Login(
        arguments["sasl_plain_username"],
        arguments["sasl_plain_password"],
        arguments["bootstrap_servers"],
        Path(arguments["ssl_cafile"]),
    )


def spark_options(login: Login) -> dict[str, str]:
    """Options of a Spark reader or writer, ours or the stock connector's."""
    return {f"kafka.{name}": value for name, value in java_properties(login).items()}


def _json(values: Mapping[str, str]) -> str:
    return json.dumps(values, indent=2) + "\n"
