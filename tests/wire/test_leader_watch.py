"""A quorum without a leader is a finding once it lasts, and no longer than it does."""

from support.live_quorum import LiveQuorum
from support.loopback import loopback, pass_time
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.node.leader_watch import LOOK_EVERY_MS, LeaderWatch


def test_a_quorum_without_a_leader_is_told_when_it_lasts_and_when_it_is_over(tell, tmp_path):
    async def story():
        async with loopback() as network, LiveQuorum(tmp_path, voters=3) as quorum:
            leader = await quorum.leader()
            wheel = network.wheel
            host = NodeHost(wheel.clock, wheel, network, SystemEntropy(), lambda event: None)
            watch = LeaderWatch(host, leader.member)
            watch.start()
            others = [node for node in quorum.running if node is not leader]
            for node in others:
                await node.crash()
            leader.member.resign()
            for _ in range(4):
                pass_time(network, LOOK_EVERY_MS)
            assert host.findings.all() == (), "elections take a while"
            pass_time(network, LOOK_EVERY_MS)
            pass_time(network, LOOK_EVERY_MS)
            (finding,) = host.findings.all()
            assert (finding.kind, finding.subject) == ("no-quorum-leader", f"node {leader.node_id}")
            assert "start the nodes" in finding.advice

            for node in others:
                await node.start()
            await quorum.leader()
            pass_time(network, LOOK_EVERY_MS)
            assert host.findings.all() == ()
            watch.stop()

    tell(story)
