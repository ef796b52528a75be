"""`tidelog format`: every directory of a node says whose it is, or none was touched."""

import json

import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.core.security.decoys import DECOY_USER
from tidelog.core.security.scram import ScramMechanism, derive_credential
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.node.bootstrap_file import read_bootstrap


@pytest.fixture
def node(tmp_path):
    def write(dirs="a,b", voters="1@127.0.0.1:9093", node_id=1):
        paths = ",".join(str(tmp_path / name) for name in dirs.split(","))
        file = tmp_path / "server.properties"
        file.write_text(
            "process.roles=broker,controller\n"
            f"node.id={node_id}\n"
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters={voters}\n"
            f"log.dirs={paths}\n"
        )
        return file

    return write


def run(*arguments):
    return CliRunner().invoke(cli, ["format", "--config", *map(str, arguments)])


def owner(path):
    lines = (path / "meta.properties").read_text().splitlines()
    return dict(line.split("=") for line in lines if "=" in line)


def test_every_directory_gets_the_same_cluster_and_an_id_of_its_own(node, tmp_path):
    done = run(node(), "--cluster-id", "orders-prod", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {
        "cluster_id": "orders-prod",
        "node_id": 1,
        "formatted": [str(tmp_path / "a"), str(tmp_path / "b")],
        "known": [],
    }
    first, second = owner(tmp_path / "a"), owner(tmp_path / "b")
    assert (first["cluster.id"], first["node.id"], first["version"]) == ("orders-prod", "1", "1")
    assert second["cluster.id"] == "orders-prod"
    assert first["directory.id"] != second["directory.id"]


def test_a_second_run_changes_nothing_and_a_new_directory_joins_the_cluster(node, tmp_path):
    run(node("a"), "--cluster-id", "ours")
    before = owner(tmp_path / "a")
    again = run(node("a,b"))
    assert again.exit_code == 0, again.stderr
    assert again.stdout == (
        f"{tmp_path / 'b'} formatted: node 1, cluster ours\n"
        f"{tmp_path / 'a'} was formatted already: nothing changed\n"
    )
    assert owner(tmp_path / "a") == before


def test_a_node_alone_gets_an_id_that_was_made_up(node, tmp_path):
    assert run(node("a")).exit_code == 0
    assert len(owner(tmp_path / "a")["cluster.id"]) == 22


def test_a_node_among_others_must_be_told_the_id(node, tmp_path):
    refused = run(node("a", voters="1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095"))
    assert refused.exit_code == 2
    assert "on every node: tidelog format --config" in refused.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("again", "why"),
    [
        ({"cluster": "theirs"}, "belongs to cluster ours, this is theirs"),
        ({"node_id": 2, "voters": "2@127.0.0.1:9093"}, "belongs to node 1, this is node 2"),
    ],
)
def test_a_directory_of_somebody_else_is_refused_and_no_other_is_touched(
    node, tmp_path, again, why
):
    run(node("a"), "--cluster-id", "ours")
    cluster = again.pop("cluster", "ours")
    refused = run(node("b,a", **again), "--cluster-id", cluster)
    assert refused.exit_code == 1
    assert why in refused.stderr
    assert not (tmp_path / "b").exists()


def test_a_directory_with_other_things_in_it_is_refused(node, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("mine")
    refused = run(node("a"))
    assert refused.exit_code == 1
    assert "is not empty and not a log directory: it holds thesis.txt" in refused.stderr


def test_a_mount_point_is_as_good_as_empty(node, tmp_path):
    (tmp_path / "a" / "lost+found").mkdir(parents=True)
    assert run(node("a")).exit_code == 0


def test_a_file_in_place_of_a_directory_is_refused(node, tmp_path):
    (tmp_path / "a").write_text("")
    refused = run(node("a"))
    assert refused.exit_code == 1
    assert "cannot be read: not a directory" in refused.stderr


@pytest.mark.parametrize("cluster_id", ["", "two words", "a=b", "x" * 129])
def test_a_cluster_id_that_could_not_be_read_back_is_refused(node, cluster_id):
    refused = run(node("a"), "--cluster-id", cluster_id)
    assert refused.exit_code == 1
    assert "is no cluster id" in refused.stderr


def test_users_of_a_new_cluster_are_left_for_its_first_controller(node, tmp_path):
    user = 'SCRAM-SHA-512=[name=alice, password="a,b]", iterations=4096]'
    done = run(node(dirs="a"), "--add-scram", user, "--add-scram", user.replace("alice", "bob"))
    assert done.exit_code == 0, done.stderr
    alice, bob, decoys = read_bootstrap(FileDisk(str(tmp_path / "a")), SystemEntropy())
    assert (alice.user, alice.mechanism, bob.user) == ("alice", ScramMechanism.SCRAM_SHA_512, "bob")
    kept = alice.credential
    again = derive_credential(ScramMechanism.SCRAM_SHA_512, "a,b]", kept.salt, 4096)
    assert kept == again
    assert kept.salt != bob.credential.salt
    assert decoys.user == DECOY_USER
    assert len(decoys.credential.salt) == len(kept.salt)
    assert "a,b" not in (tmp_path / "a/bootstrap.checkpoint").read_bytes().decode("latin-1")
    refused = run(node(dirs="a"), "--add-scram", user)
    assert refused.exit_code == 1
    assert "formatted already" in refused.stderr


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("alice", "is written SCRAM-SHA-512=[name=NAME,password=PASSWORD]"),
        ("SCRAM-SHA-1=[name=a,password=secret]", "none of SCRAM-SHA-256 and SCRAM-SHA-512"),
        ("SCRAM-SHA-512=[password=secret]", "needs a name="),
        ("SCRAM-SHA-512=[name=a]", "either a password= or a saltedpassword="),
        ("SCRAM-SHA-512=[name=a,password=]", "the password is empty"),
        ("SCRAM-SHA-512=[name=a,password=secret,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-512=[name=a,saltedpassword=c2VjcmV0]", "comes with its salt="),
        ("SCRAM-SHA-512=[name=a,saltedpassword=secret!,salt=c2Vj]", "written in base64"),
        ("SCRAM-SHA-512=[name=a,name=b,password=secret]", "one each of"),
        ("SCRAM-SHA-512=[name=a,password=secret,planet=mars]", "one each of"),
    ],
)
def test_a_user_that_cannot_be_understood_formats_nothing(node, tmp_path, user, reason):
    done = run(node(dirs="a"), "--add-scram", user)
    assert done.exit_code == 1
    assert reason in done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "a").exists()
