"""How a fault reads in a story: what is done to whom, for how long, in words."""

from collections.abc import Callable, Sequence
from typing import Final

from tidelog.sim.faults import Fault

Words = Callable[[Fault, str], str]


def describe_fault(fault: Fault, topics: Sequence[str] = ()) -> str:
    """`crash node 3 for 1.2 s`, `cut the leader of orders-1 (else node 2) off for 300 ms`.

    `topics` are the names of the plan's topics, in their order.
    """
    name = topics[fault.topic] if fault.topic < len(topics) else f"topic {fault.topic}"
    text = _WORDS[fault.kind](fault, _whom(fault, name)).format(
        topic=name, partition=f"{name}-{fault.partition}"
    )
    return f"{text} for {_time(fault.duration_ms)}" if fault.duration_ms else text


def _whom(fault: Fault, topic: str) -> str:
    """Who is hit; an aim is resolved when it happens, and falls back to the node drawn."""
    drawn = f"node {_ids(fault.nodes)}" if fault.nodes else "somebody"
    if not fault.aim:
        return drawn
    role = {
        "controller": "the active controller",
        "leader": f"the leader of {topic}-{fault.partition}",
        "follower": f"an in-sync follower of {topic}-{fault.partition}",
        "outsider": f"a replica of {topic}-{fault.partition} outside the ISR",
    }[fault.aim]
    return f"{role} (else {drawn})" if fault.nodes else role


def _ids(nodes: Sequence[object]) -> str:
    return ",".join(str(node) for node in nodes) or "nobody"


def _time(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g} s" if duration_ms >= 1000 else f"{duration_ms} ms"


def _arg(fault: Fault, index: int = 0) -> int:
    return fault.args[index] if index < len(fault.args) else 0


def _pair(fault: Fault) -> str:
    source, target = (*fault.nodes, 0, 0)[:2]
    return f"from node {source} to node {target}"


def _late_proposals(fault: Fault, whom: str) -> str:
    late = _time(_arg(fault))
    if _arg(fault, 1):
        return f"copies of ISR proposals and heartbeats of {whom} arrive again {late} later,"
    return f"ISR proposals of {whom} arrive {late} late,"


_WORDS: Final[dict[str, Words]] = {
    "crash": lambda _, whom: f"crash {whom}",
    "power_loss": lambda f, whom: (
        f"cut the power of {whom}, {_arg(f) / 10:g} % of the unsynced tail survives,"
    ),
    "power_loss_all": lambda f, _: (
        f"cut the power of all nodes, {_arg(f) / 10:g} % of the unsynced tails survive,"
    ),
    "pause": lambda _, whom: f"pause {whom}",
    "clean_stop": lambda _, whom: f"stop {whom} cleanly",
    "isolate": lambda f, whom: f"cut {whom} off from all nodes{' and clients' if _arg(f) else ''}",
    "split": lambda f, _: f"split the cluster, nodes {_ids(f.nodes)} on one side",
    "one_way": lambda f, _: f"lose every message {_pair(f)}",
    "controller_cut": lambda _, whom: f"cut {whom} off from the voters",
    "client_cut": lambda _, whom: f"cut {whom} off from the clients",
    "clog": lambda f, _: f"slow messages {_pair(f)} down {_arg(f)} times",
    "slow_disk": lambda f, whom: f"make every sync of {whom} take {_time(_arg(f))} longer",
    "wipe": lambda _, whom: f"replace the data disk of {whom} by an empty one, down",
    "clock_jump": lambda f, whom: f"the wall clock of {whom} jumps by {_arg(f) / 1000:+g} s",
    "reassign": lambda f, _: f"move {{partition}} to brokers {_ids(f.nodes)}",
    "min_isr_change": lambda f, _: f"set min ISR of {{topic}} to {_arg(f)}",
    "preferred_election": lambda _f, _w: "ask for the preferred leader of {partition}",
    "unclean_election": lambda _f, _w: (
        "ask for an unclean election of {partition} when it is offline, look out"
    ),
    "trim": lambda f, _: f"delete {_arg(f) / 10:g} % of the committed records of {{partition}}",
    "create_topic": lambda f, _: (
        f"create topic extra-{_arg(f)}, {_arg(f, 1)} partitions,"
        f" replication factor {_arg(f, 2)}, min ISR {_arg(f, 3)}"
    ),
    "delete_topic": lambda _f, _w: "delete topic {topic}, to be created again",
    "roll_restart": lambda f, _: f"restart nodes {_ids(f.nodes)} one after the other, each down",
    "late_proposals": _late_proposals,
    "late_fetches": lambda f, whom: (
        f"copies of the fetches of {whom} arrive again {_time(_arg(f))} later,"
    ),
    "lost_answers": lambda f, whom: (
        f"lose every message from {whom} to transaction coordinator {_arg(f)}"
    ),
    "connection_reset": lambda _, whom: f"reset all connections of {whom}",
    "disk_full": lambda _, whom: f"fill the disk of {whom}",
    "sync_error": lambda f, whom: f"let a sync of {whom} fail after {_arg(f)} good ones",
    "segment_loss": lambda _, whom: f"remove the first segment of a log of {whom}",
    "bit_flip": lambda f, whom: f"flip bit {_arg(f, 1)} at {_arg(f) / 10:g} % of a log of {whom}",
}
