"""Nodes as processes with secured listeners: passwords over TLS for some, certificates for others.

CLIENTS   SASL_SSL   SCRAM and PLAIN for people
CERTS     SSL        people by their certificates
BROKERS   SASL_SSL   brokers among themselves, SCRAM
CONTROLLER SSL       nodes by their certificates
"""

import datetime
import http.client
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.certificates import Authority, Leaf
from tidelog.cluster.free_ports import free_ports
from tidelog.config.properties import write_properties

GUARD_S = 60
"""No story may hang for ever. Nothing is measured against it."""
CLUSTER_ID = "c2VjdXJlLWNsdXN0ZXIxMg"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecureNodes:
    """`with SecureNodes(tmp_path, brokers=3) as nodes: …`"""

    listeners: tuple[str, ...] = ("CLIENTS", "CERTS", "BROKERS", "CONTROLLER")
    users: tuple[tuple[int, str, str], ...] = (
        (512, "broker", "between-us"),
        (512, "alice", "tide"),
        (256, "alice", "tide"),
    )
    """Of SCRAM, from the beginning: the bits of the mechanism, a name and a password."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        authority: Authority | None = None,
        config: Mapping[str, str] | None = None,
        https: bool = False,
    ) -> None:
        self.directory = directory
        self.https = https
        self.authority = authority or Authority()
        self.ca_file = self.authority.write(directory / "ca.pem")
        self.config = dict(config or {})
        self._ports = {node: free_ports(len(self.listeners) + 1) for node in range(1, brokers + 1)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for node in self._ports:
            self.node_leaf(f"node{node}").write(self.key_file(node))

    def __enter__(self) -> "SecureNodes":
        try:
            with ThreadPoolExecutor() as at_once:
                list(at_once.map(self._format, self._ports))
            for node in self._ports:
                self.start(node)
            for node in self._ports:
                self.wait_ready(node)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        for node in self._ports:
            print(f"---- node {node}\n{self.log(node)}")

    def node_leaf(self, name: str, days: int = 365) -> Leaf:
        """For `localhost` alone: 127.0.0.1 is a wrong name for the same place."""
        subject = {"OU": "nodes", "CN": name}
        expires_in = datetime.timedelta(days=days)
        return self.authority.leaf(subject, hosts=("localhost",), expires_in=expires_in)

    # ---- where things are

    def key_file(self, node: int) -> Path:
        return self.directory / f"node{node}.pem"

    def log(self, node: int) -> str:
        path = self.directory / f"node{node}.log"
        return path.read_text("utf-8") if path.exists() else ""

    def wait_for_line(self, node: int, text: str) -> None:
        """A client may hear of a refusal before the node has written its line about it."""
        end = time.monotonic() + GUARD_S
        while text not in self.log(node):
            assert time.monotonic() < end, (
                f"no {text!r} in what node {node} says:\n{self.log(node)}"
            )
            time.sleep(0.02)

    def http_port(self, node: int) -> int:
        return self._ports[node][-1]

    def port(self, node: int, listener: str) -> int:
        return self._ports[node][self.listeners.index(listener)]

    def addresses(self, listener: str) -> str:
        return ",".join(f"localhost:{self.port(node, listener)}" for node in self._ports)

    @property
    def for_passwords(self) -> str:
        return self.addresses("CLIENTS")

    @property
    def for_certificates(self) -> str:
        return self.addresses("CERTS")

    def leaf_file(self, name: str, leaf: Leaf) -> Path:
        return leaf.write(self.directory / f"{name}.pem")

    # ---- processes

    def start(self, node: int) -> None:
        with (self.directory / f"node{node}.log").open("ab") as log:
            command = [sys.executable, "-m", "tidelog", "node", "start", "--config"]
            self._processes[node] = subprocess.Popen(
                [*command, str(self._config_file(node))], stdout=log, stderr=log
            )

    def stop(self, node: int) -> int:
        process = self._processes.pop(node)
        process.send_signal(signal.SIGTERM)
        return process.wait(GUARD_S)

    def wait_ready(self, node: int) -> None:
        end = time.monotonic() + GUARD_S
        while self.get(node, "/healthz")[0] != 200:
            code = self._processes[node].poll()
            assert code is None, f"node {node} ended with {code}:\n{self.log(node)}"
            assert time.monotonic() < end, f"node {node} is not ready:\n{self.log(node)}"
            time.sleep(0.02)

    def get(self, node: int, path: str, headers: Mapping[str, str] = {}) -> tuple[int, str]:
        """0 if nobody answers."""
        try:
            return self.ask(node, "GET", path, headers)
        except OSError:
            return 0, ""

    def ask(
        self, node: int, method: str, path: str, headers: Mapping[str, str], body: str = ""
    ) -> tuple[int, str]:
        port = self.http_port(node)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_S)
        if self.https:
            context = ssl.create_default_context(cafile=str(self.ca_file))
            connection = http.client.HTTPSConnection(
                "localhost", port, timeout=GUARD_S, context=context
            )
        try:
            connection.request(method, path, body or None, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _config_file(self, node: int) -> Path:
        return self.directory / f"node{node}.properties"

    def configure(self, node: int) -> None:
        """Writes what the node reads when it starts."""
        text = write_properties({**self.properties(node), **self.config})
        self._config_file(node).write_text(text, "utf-8")

    def _format(self, node: int) -> None:
        (self.directory / f"data{node}").mkdir(exist_ok=True)
        self.configure(node)
        options = []
        for bits, name, password in self.users:
            options += ["--add-scram", f"SCRAM-SHA-{bits}=[name={name},password={password}]"]
        command = [sys.executable, "-m", "tidelog", "format", "--cluster-id", CLUSTER_ID]
        done = subprocess.run(
            [*command, "--config", str(self._config_file(node)), *options],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _http_listener(self, node: int) -> str:
        port = self.http_port(node)
        return f"https://localhost:{port}" if self.https else f"127.0.0.1:{port}"

    def properties(self, node: int) -> dict[str, str]:
        ports = {name: self.port(node, name) for name in self.listeners}
        voters = [f"{each}@localhost:{self.port(each, 'CONTROLLER')}" for each in self._ports]
        copies = str(min(3, len(self._ports)))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": ",".join(f"{name}://localhost:{ports[name]}" for name in self.listeners),
            "listener.security.protocol.map": (
                "CLIENTS:SASL_SSL,CERTS:SSL,BROKERS:SASL_SSL,CONTROLLER:SSL"
            ),
            "inter.broker.listener.name": "BROKERS",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self.directory / f"data{node}"),
            "tidelog.http.listener": self._http_listener(node),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_file(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "listener.name.certs.ssl.client.auth": "required",
            "listener.name.certs.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/L,DEFAULT",
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="tide" user_bob="sand";'
            ),
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.brokers.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="broker" password="between-us";'
            ),
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "group.initial.rebalance.delay.ms": "0",
        }
