"""A cluster's certificate authority, what it issues, and the files that are made for clients."""

import datetime
import json
import re
import ssl
import stat

import pytest

from tidelog.config.properties import parse_properties
from tidelog.core.security.principal_rules import parse_rules, user_name
from tidelog.secure.authority import Authority, Issued, NoAuthority
from tidelog.secure.client_files import Login, write_client_files
from tidelog.secure.node_settings import principal_rules
from tidelog.secure.secret_files import write_secret

NOW = datetime.datetime.now(datetime.UTC)


class Conversation:
    """A TLS handshake in memory: a server with its certificate, a client that trusts somebody."""

    def __init__(self, tmp_path, server: Issued, trusted: bytes, client: Issued | None = None):
        self.tmp_path = tmp_path
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(self.server, server)
        self.client = ssl.create_default_context(cadata=trusted.decode())
        if client is not None:
            self.server.verify_mode = ssl.CERT_REQUIRED
            self.server.load_verify_locations(cadata=trusted.decode())
            self._load(self.client, client)

    def _load(self, context, issued):
        path = self.tmp_path / f"{id(issued)}.pem"
        write_secret(path, issued.bundle)
        context.load_cert_chain(path)

    def hold(self, server_name):
        """What the server knows of the client afterwards."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.client.wrap_bio(to_client, to_server, server_hostname=server_name)
        server = self.server.wrap_bio(to_server, to_client, server_side=True)
        waiting = [client, server]
        while waiting:
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except ssl.SSLWantReadError:
                    continue
        return server.getpeercert()


def test_a_client_that_trusts_the_authority_trusts_its_nodes(tmp_path):
    authority = Authority.make("dev", NOW)
    node = authority.issue_to_node("node-1", ["localhost", "127.0.0.1"], NOW)
    for name in ("localhost", "127.0.0.1"):
        Conversation(tmp_path, node, authority.certificate).hold(name)


def test_a_node_is_not_trusted_under_another_name(tmp_path):
    authority = Authority.make("dev", NOW)
    node = authority.issue_to_node("node-1", ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        Conversation(tmp_path, node, authority.certificate).hold("elsewhere")


def test_a_node_of_another_authority_is_not_trusted(tmp_path):
    node = Authority.make("other", NOW).issue_to_node("node-1", ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        Conversation(tmp_path, node, Authority.make("dev", NOW).certificate).hold("localhost")


def test_an_old_certificate_is_not_trusted(tmp_path):
    authority = Authority.make("dev", NOW - datetime.timedelta(days=500))
    node = authority.issue_to_node("node-1", ["localhost"], NOW - datetime.timedelta(days=400))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        Conversation(tmp_path, node, authority.certificate).hold("localhost")


def test_no_certificate_outlives_its_authority():
    almost = datetime.timedelta(days=3649)
    authority = Authority.make("dev", NOW - almost)
    issued = authority.issue_to_user("alice", NOW)
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(issued.certificate)
    assert certificate.not_valid_after_utc == authority.expires


@pytest.mark.parametrize(
    ("issue", "principal"),
    [
        (lambda ca: ca.issue_to_node("node-3", ["localhost"], NOW), "tidelog-node"),
        (lambda ca: ca.issue_to_user("alice", NOW), "alice"),
        (lambda ca: ca.issue_to_user("x,OU=tidelog-nodes", NOW), None),
    ],
    ids=["a node", "a user", "a user who calls himself a node"],
)
def test_the_rules_for_principals_tell_nodes_from_users(tmp_path, issue, principal):
    authority = Authority.make("dev", NOW)
    node = authority.issue_to_node("node-1", ["localhost"], NOW)
    told = Conversation(tmp_path, node, authority.certificate, issue(authority)).hold("localhost")
    parts = [pair for attributes in told["subject"] for pair in attributes]
    short = {"commonName": "CN", "organizationalUnitName": "OU"}
    # RFC 2253, as Kafka does: last attribute first, commas in a value escaped
    subject = ",".join(
        f"{short[key]}={value.replace(',', chr(92) + ',')}" for key, value in parts[::-1]
    )
    assert user_name(parse_rules(principal_rules()), subject) == (principal or subject)


def test_an_authority_is_kept_in_files_that_only_the_owner_reads(tmp_path):
    made = Authority.make("dev", NOW)
    made.save(tmp_path)
    assert stat.S_IMODE((tmp_path / "ca-key.pem").stat().st_mode) == 0o600
    again = Authority.load(tmp_path)
    assert again.certificate == made.certificate
    node = again.issue_to_node("node-1", ["localhost"], NOW)
    Conversation(tmp_path, node, made.certificate).hold("localhost")


def test_a_directory_without_an_authority_is_named(tmp_path):
    with pytest.raises(NoAuthority, match=re.escape(str(tmp_path))):
        Authority.load(tmp_path)
    (tmp_path / "ca-key.pem").write_text("nonsense")
    (tmp_path / "ca.pem").write_text("nonsense")
    with pytest.raises(NoAuthority, match=re.escape(str(tmp_path))):
        Authority.load(tmp_path)


def test_every_kind_of_client_gets_its_file_and_nobody_else_reads_them(tmp_path):
    login = Login("alice", "s3cret", "localhost:9092", tmp_path / "ca.pem")
    written = write_client_files(tmp_path / "clients", login)
    assert {path.name for path in written} == {
        "client.properties",
        "librdkafka.properties",
        "python.json",
        "spark.json",
    }
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "s3cret" in path.read_text()
    java = parse_properties((tmp_path / "clients/alice/client.properties").read_text(), "x")
    values = {each.key: each.value for each in java.entries}
    assert 'username="alice" password="s3cret";' in values["sasl.jaas.config"]
    spark = json.loads((tmp_path / "clients/alice/spark.json").read_text())
    assert spark["kafka.sasl.jaas.config"] == values["sasl.jaas.config"]
