"""`tidelog secure check` of a cluster that nobody has secured."""

import json
import os
import subprocess
import sys

from tidelog.testing import Cluster

GUARD_S = 60


def test_a_cluster_without_security_is_open_and_a_check_says_to_whom():
    with Cluster(brokers=1) as cluster:
        cluster.topic("orders", partitions=1)
        command = [sys.executable, "-m", "tidelog", "secure", "check", "-o", "json"]
        done = subprocess.run(
            [*command, "-b", cluster.bootstrap_servers],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    told = {each["where"].partition(" (")[0]: each for each in findings if each["level"] == "open"}
    listener = told["PLAINTEXT of node 1"]["text"]
    assert listener.startswith("anybody on this machine gets in without a login and may ")
    assert "orders" in listener
    assert "read, write" in listener
    assert "can cut this node off from others" in told["HTTP of node 1"]["text"]
    assert any("there are no access rules" in each["text"] for each in findings)
