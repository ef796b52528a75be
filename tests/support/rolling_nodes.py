"""Three nodes that follow docs/rolling-to-secure.md: what the page says is what they are told."""

import re
from collections.abc import Callable
from pathlib import Path

from support.secure_nodes import SecureNodes
from tidelog.config.properties import parse_properties

PAGE = Path(__file__).parents[2] / "docs" / "rolling-to-secure.md"
BLOCK = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"tide-(\d)\.example\.org:(\d+)")
LISTENER_OF = {
    9092: "PLAINTEXT",
    9093: "CONTROLLER",
    9192: "CLIENTS",
    9193: "CONTROLLER_TLS",
    9194: "INTERNAL",
}
NODES = (1, 2, 3)


def steps_of_the_page() -> list[dict[str, str]]:
    """The settings of node 1: before, and after each rolling restart."""
    steps: list[dict[str, str]] = []
    for block in BLOCK.findall(PAGE.read_text("utf-8")):
        changed = {each.key: each.value for each in parse_properties(block, PAGE.name).entries}
        steps.append({**steps[-1], **changed} if steps else changed)
    return steps


class RollingNodes(SecureNodes):
    listeners = tuple(LISTENER_OF.values())
    users = ()

    def __init__(self, directory: Path, first_step: int = 0) -> None:
        self.steps = steps_of_the_page()
        self.step = dict.fromkeys(NODES, first_step)
        super().__init__(directory, brokers=len(NODES))

    def properties(self, node: int) -> dict[str, str]:
        places = {
            "/etc/tidelog/node.pem": str(self.key_file(node)),
            "/etc/tidelog/ca.pem": str(self.ca_file),
            "/var/lib/tidelog": str(self.directory / f"data{node}"),
        }
        settings = {
            **self.steps[self.step[node]],
            "node.id": str(node),
            "tidelog.http.listener": f"127.0.0.1:{self.http_port(node)}",
            "group.initial.rebalance.delay.ms": "0",
        }
        settings["listeners"] = settings["listeners"].replace("tide-1.", f"tide-{node}.")
        return {
            key: ADDRESS.sub(self._address, places.get(value, value))
            for key, value in settings.items()
        }

    def _address(self, found: re.Match[str]) -> str:
        node, listener = int(found[1]), LISTENER_OF[int(found[2])]
        return f"localhost:{self.port(node, listener)}"

    def roll(self, step: int, while_down: Callable[[], None], in_sync: Callable[[], None]) -> None:
        """A rolling restart, as the page describes it."""
        for node in NODES:
            assert self.stop(node) == 0, self.log(node)
            while_down()
            self.step[node] = step
            self.configure(node)
            self.start(node)
            self.wait_ready(node)
            in_sync()
