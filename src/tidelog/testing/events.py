"""What the nodes of a cluster said happened."""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.cluster.node_http import NodeHttp, http_of
from tidelog.cluster.nodes import ClusterNodes
from tidelog.core.events import Event
from tidelog.host.tls import TlsError
from tidelog.testing.thread_nodes import ThreadNodes

KINDS = frozenset(kind.__name__ for kind in Event.__args__)
"""`BrokerFenced`, `IsrChanged`, `LeaderElected`, …: see `core.events`."""
SAME = {"IsrChanged": frozenset(("IsrChanged", "IsrCommitted"))}
"""One thing, told by whoever sees it: the controller commits a new in-sync set, and a leader adopts
it. One that is elected together with the new set has nothing to adopt."""
ANSWER_WITHIN_SECONDS = 2


class Told(NamedTuple):
    """One event of one node."""

    time: str
    node: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.time} node {self.node} {self.kind}: {self.text}"


class Events:
    """`events.saw("BrokerFenced", "elected")`: kinds of events and texts of their lines."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: ClusterNodes) -> None:
        self._nodes = nodes

    def lines(self) -> list[str]:
        """Of all nodes, in order of time: every line begins with it."""
        return sorted(
            line
            for node_id in self._nodes.node_ids
            for line in self._nodes.log_text(node_id).splitlines()
        )

    def all(self) -> list[Told]:
        """With their kinds, in order of time. Of processes, those that run can be asked, for the
        last 10,000 each; what a killed one has seen is in its lines alone."""
        found = (told for node_id in self._nodes.node_ids for told in self._of(node_id))
        return sorted(found, key=lambda told: told.time)

    def kinds(self) -> set[str]:
        return {told.kind for told in self.all()}

    def saw(self, *wanted: str) -> bool:
        """Whether each of these happened: the kind of an event, or a text that is in some line."""
        texts = [each for each in wanted if each not in KINDS]
        kinds = [SAME.get(each, {each}) for each in wanted if each in KINDS]
        lines = self.lines() if texts else []
        if not all(any(text in line for line in lines) for text in texts):
            return False
        happened = self.kinds() if kinds else set()
        return all(each & happened for each in kinds)

    def _of(self, node_id: int) -> Iterator[Told]:
        nodes = self._nodes
        if isinstance(nodes, ThreadNodes):
            for each in tuple(nodes.journal(node_id).events):
                yield Told(each.time, node_id, each.kind, each.text)
        elif nodes.node(node_id).state == "running":
            for document in read_events(http_of(nodes, node_id)):
                yield Told(document["time"], node_id, document["event"], document["text"])


def read_events(node: NodeHttp) -> list[dict[str, Any]]:
    """All that a node has kept; nothing if it does not answer."""
    found: list[dict[str, Any]] = []
    try:
        connection = node.connect(ANSWER_WITHIN_SECONDS)
    except (OSError, TlsError):
        return found
    try:
        connection.request("GET", "/events?since=0", headers=node.login())
        answer = connection.getresponse()
        if answer.status == 200:
            _read_up_to_now(answer.readline, found)
    except (OSError, ValueError, http.client.HTTPException):
        return found
    finally:
        connection.close()
    return found


def _read_up_to_now(readline: Callable[[], bytes], found: list[dict[str, Any]]) -> None:
    """The stream has no end. Its first event says how far it goes right now."""
    last = None
    while last is None or (last and (not found or found[-1]["number"] < last)):
        line = readline()
        if not line:
            return
        if line.startswith(b"data: "):
            document = json.loads(line[6:])
            if last is None:
                last = int(document["number"])
            elif "event" in document:
                found.append(document)
