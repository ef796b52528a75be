"""The replica audit on Spark says what it says without."""

import pytest

from support.batches import batch
from support.data_directories import NodeDirectory, fill, flip, segment_files
from tidelog.audit.replicas import audit_partition, work_of
from tidelog.audit.replicas_on_spark import audit_on_spark
from tidelog.replica_files import DataDirectory


@pytest.mark.long
def test_spark_finds_what_threads_find(spark, tmp_path):
    nodes = [NodeDirectory(tmp_path, number) for number in (1, 2, 3)]
    names = [("orders", 0), ("orders", 1), ("empty", 0)]
    for node in nodes:
        for name in names[:2]:
            fill(node.log(*name), [batch(b"a%02d" % number) for number in range(100)])
        node.log(*names[2])
        node.checkpoint(dict.fromkeys(names[:2], 100))
        node.close()
    flip(segment_files(nodes[1], "orders-1")[0], 1060)
    flip(segment_files(nodes[2], "orders-1")[1], 8, 64)
    work = work_of([DataDirectory(node.path) for node in nodes], names, {})
    here = {each.name: each for each in map(audit_partition, work)}
    there = {}
    audit_on_spark(
        spark,
        work,
        [str(node.path) for node in nodes],
        lambda comparison: there.setdefault(comparison.name, comparison),
    )
    assert set(there) == {"orders-0", "orders-1", "empty-0"}
    for name, comparison in here.items():
        assert there[name].verdict == comparison.verdict
        assert there[name].findings == comparison.findings
        assert there[name].ends == comparison.ends
    damaged = there["orders-1"]
    assert {(each.kind, each.nodes) for each in damaged.findings} == {
        ("checksum", (2,)),
        ("unreadable", (3,)),
    }
