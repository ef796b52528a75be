"""The directory of a local cluster: ports, files, and processes that may not be ours."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tidelog.cluster import layout
from tidelog.cluster import state as states
from tidelog.cluster.free_ports import free_ports
from tidelog.cluster.layout import DifferentCluster, Shape
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.process_ids import ProcessId
from tidelog.cluster.state import BadStateFile
from tidelog.config.layers import Inputs
from tidelog.config.node_config import load_node_config
from tidelog.config.profiles import BRISK, PROFILES
from tidelog.config.properties import parse_properties
from tidelog.host.disk import FileDisk
from tidelog.storage.meta_properties import read_meta_properties

BRISK_SESSION_MS = int(PROFILES[BRISK]["broker.session.timeout.ms"])


@pytest.fixture
def sleeper():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def config_of(directory, node_id):
    path = layout.config_file(directory, node_id)
    return load_node_config(Inputs(parse_properties(path.read_text(), path.name)))


def test_every_node_gets_a_configuration_that_a_node_accepts(tmp_path):
    shape = Shape(brokers=4, racks=("a", "b"), config={"num.partitions": "6"})
    state = layout.create(tmp_path, "dev", shape)
    for node in state.nodes.values():
        loaded = config_of(tmp_path, node.id)
        assert loaded.problems == ()
        assert loaded.config.node_id == node.id
        assert loaded.config.rack == ("a" if node.id % 2 else "b")
        assert loaded.config.settings.whole("num.partitions") == 6
        assert loaded.config.settings.whole("broker.session.timeout.ms") == BRISK_SESSION_MS
    assert [node.id for node in state.controllers] == [1, 2, 3]
    ports = [
        port for n in state.nodes.values() for port in (n.port, n.controller_port, n.http_port)
    ]
    assert len({port for port in ports if port}) == 4 + 3 + 4


def test_controllers_can_be_nodes_of_their_own(tmp_path):
    shape = Shape(brokers=2, controllers=3, racks=("a",), separate=True)
    state = layout.create(tmp_path, "dev", shape)
    assert [node.id for node in state.brokers] == [1, 2]
    assert [node.id for node in state.controllers] == [101, 102, 103]
    assert state.bootstrap_servers.count(",") == 1
    for node in state.nodes.values():
        loaded = config_of(tmp_path, node.id)
        assert loaded.problems == ()
        assert loaded.config.roles == node.roles
        assert len(loaded.config.voters) == 3
    assert layout.create(tmp_path, "dev", shape).nodes.keys() == state.nodes.keys()


def test_data_directories_are_formatted_for_one_cluster(tmp_path):
    state = layout.create(tmp_path, "dev", Shape(brokers=2))
    found = [
        read_meta_properties(FileDisk(layout.data_directory(tmp_path, node))) for node in (1, 2)
    ]
    assert [each.node_id for each in found] == [1, 2]
    assert {each.cluster_id for each in found} == {state.cluster_id}
    assert found[0].directory_id != found[1].directory_id


def test_a_second_start_finds_the_same_cluster_at_the_same_ports(tmp_path):
    first = layout.create(tmp_path, "dev", Shape(brokers=3))
    again = layout.create(tmp_path, "dev", Shape(brokers=3))
    assert again.cluster_id == first.cluster_id
    assert again.bootstrap_servers == first.bootstrap_servers


@pytest.mark.parametrize(
    "other", [Shape(brokers=2), Shape(brokers=3, controllers=1), Shape(brokers=1)]
)
def test_data_of_another_shape_is_not_taken_over(tmp_path, other):
    layout.create(tmp_path, "dev", Shape(brokers=3))
    with pytest.raises(DifferentCluster):
        layout.create(tmp_path, "dev", other)


def test_a_broker_may_be_added_to_a_cluster_that_has_its_controllers(tmp_path):
    layout.create(tmp_path, "dev", Shape(brokers=3))
    assert len(layout.create(tmp_path, "dev", Shape(brokers=4)).nodes) == 4


def test_a_small_cluster_asks_for_no_more_copies_than_it_can_hold(tmp_path):
    layout.create(tmp_path, "dev", Shape(brokers=1))
    settings = config_of(tmp_path, 1).config.settings
    assert settings.whole("default.replication.factor") == 1
    assert settings.whole("min.insync.replicas") == 1


def test_a_port_that_is_taken_is_not_chosen():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port not in free_ports(1, [port])


def test_ports_of_nodes_are_never_those_of_outgoing_connections():
    """Or a stopped node would find its port taken by somebody who only wanted any."""
    ports = [*free_ports(40), *free_ports(3)]
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert max(ports) < server.getsockname()[1]
    assert len(set(ports)) == 43


def test_the_state_file_comes_back_as_it_was(tmp_path):
    state = layout.create(tmp_path, "dev", Shape(brokers=2, ephemeral=True))
    state.nodes[1].process = ProcessId(12, 3456)
    state.nodes[2].blocked = [1]
    state.nodes[2].latency_ms = {"1": 80}
    states.save(tmp_path, state)
    assert states.load(tmp_path) == state


def test_a_broken_state_file_is_named(tmp_path):
    (tmp_path / states.FILE_NAME).write_text('{"nodes": [{}]}')
    with pytest.raises(BadStateFile, match=states.FILE_NAME):
        states.load(tmp_path)
    assert states.load(tmp_path / "elsewhere") is None


def test_a_number_that_belongs_to_somebody_else_by_now_is_never_signalled(sleeper):
    real = ProcessId.of(sleeper.pid)
    recycled = real._replace(start_ticks=real.start_ticks - 1)
    assert recycled.state() == "gone"
    assert not recycled.send(signal.SIGKILL)
    assert real.state() == "running"
    assert sleeper.poll() is None


def test_a_process_is_seen_paused_and_gone(sleeper):
    process = ProcessId.of(sleeper.pid)
    assert process.send(signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert process.state() == "paused"
    sleeper.kill()
    sleeper.wait()
    assert process.state() == "gone"
    assert not process.send(signal.SIGTERM)


BUSY = """
import threading
for _ in range(8):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(1, flush=True)
while True:
    pass
"""


def test_a_node_that_was_paused_stands_still_with_all_its_threads(tmp_path):
    """Only then does the kernel wake and end it when the one who paused it is killed."""
    state = layout.create(tmp_path, "dev", Shape(brokers=1))
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            state.nodes[1].process = ProcessId.of(child.pid)
            nodes = LocalNodes(tmp_path, state)
            for _ in range(20):
                assert nodes.pause(1)
                assert os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG) is not None
                assert nodes.resume(1)
        finally:
            child.kill()
        child.wait()
        assert not nodes.pause(1)


def test_stopping_a_node_that_hears_nothing_kills_it_in_time(tmp_path):
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True);"
    child = subprocess.Popen(
        [sys.executable, "-c", deaf + "time.sleep(60)"], stdout=subprocess.PIPE
    )
    with child:
        child.stdout.readline()
        state = layout.create(tmp_path, "dev", Shape(brokers=1))
        state.nodes[1].process = ProcessId.of(child.pid)
        stopped = LocalNodes(tmp_path, state).stop([1], timeout_ms=50)
        assert [(each.node_id, each.in_time) for each in stopped] == [(1, False)]
        assert child.wait() == -signal.SIGKILL
    assert states.load(tmp_path).nodes[1].process is None
