"""The disk of a metadata log that lies apart: nearly full is a finding, and over when it is."""

from support.lone_broker import node_config, until
from support.loopback import loopback, pass_time
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import DiskSpace
from tidelog.host.workers import ThreadWorkers
from tidelog.node.metadata_room import LOOK_EVERY_MS, MetadataRoom

TOTAL_BYTES = 1024**3
RESERVE_BYTES = TOTAL_BYTES // 100


def test_a_metadata_disk_that_fills_up_is_told_until_it_has_room_again(tell, tmp_path):
    apart = str(tmp_path / "metadata")
    free = [TOTAL_BYTES]

    def seen(path: str) -> DiskSpace | None:
        assert path == apart
        return DiskSpace(TOTAL_BYTES, free[0])

    async def story():
        async with loopback() as network:
            wheel = network.wheel
            host = NodeHost(
                wheel.clock,
                wheel,
                network,
                SystemEntropy(),
                lambda event: None,
                disk_space=seen,
                make_workers=ThreadWorkers,
            )
            room = MetadataRoom(node_config(tmp_path, metadata_log_dir=apart), host)
            room.start()
            await until(lambda: room.view().space is not None)
            assert host.findings.all() == ()
            free[0] = RESERVE_BYTES - 1
            pass_time(network, LOOK_EVERY_MS)
            await until(lambda: room.view().is_full)
            (finding,) = host.findings.all()
            assert (finding.kind, finding.subject) == ("disk-full", apart)
            assert f"{free[0]:,}" in finding.text
            free[0] = TOTAL_BYTES
            pass_time(network, LOOK_EVERY_MS)
            await until(lambda: not room.view().is_full)
            assert host.findings.all() == ()
            room.stop()

    tell(story)
