"""`tidelog explain`: why a partition or a group is as it is, in one paragraph."""

import asyncio
import time
from typing import Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster, parse_partition
from tidelog.cli.explain_group import explain_group
from tidelog.cli.explain_stable import (
    Held,
    held_command,
    held_document,
    held_sentences,
    what_holds,
)
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.home import local_http
from tidelog.cli.output import duration, print_json
from tidelog.client import BrokerView, Client, PartitionView
from tidelog.client.disks import FullDisk, full_disks
from tidelog.cluster.node_state import partition_in, read_state
from tidelog.survey.partition_state import HEALTHY, OFFLINE, UNDER_MIN_ISR, Judgement, judge
from tidelog.survey.topics import min_isr_in, named_topic, offsets_of, topic_settings


class Facts(NamedTuple):
    """All that the paragraph is made of."""

    partition: PartitionView
    judgement: Judgement
    alive: tuple[int, ...]
    min_isr: int | None
    log_start_offset: int | None
    high_watermark: int | None
    told: dict[str, Any]
    """What the leader says of it over HTTP; empty if it says nothing."""
    held: Held | None = None
    """What keeps the last stable offset below the high watermark."""
    refused: tuple[int, ...] = ()
    """Replicas that the metadata call alive and that refuse connections: just killed."""
    full_disks: tuple[FullDisk, ...] = ()
    """Of its replicas that are alive: those on them take no records."""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"


@click.command(name="explain")
@click.argument("words", nargs=-1, required=True, metavar="TOPIC-PARTITION | group GROUP")
@asks_cluster
@output_option
@shared_options
def command(asking: Asking, words: tuple[str, ...], output: str) -> None:
    """Say why a partition or a group is as it is, and what to do next.

    \b
    Examples:
      tidelog explain orders-0
      tidelog explain group billing
      tidelog explain orders-0 -o json

    Of a partition: who leads it, who is in sync, and which transaction makes readers of committed
    records wait. Of a group: why it rebalances, and where it lags.
    """
    if words[0] == "group" and len(words) == 2:
        document = explain_group(asking, words[1])
    elif len(words) == 1:
        document = explain_partition(asking, words[0])
    else:
        raise CommandError(
            f"{' '.join(words)} cannot be explained",
            why="one partition can, or the word group and one name",
            advice="tidelog explain orders-0    or    tidelog explain group billing",
            code=USAGE,
        )
    if output == "json":
        print_json(document)
    else:
        click.echo(document["explanation"])
        click.echo(f"next: {document['next']}")


def explain_partition(asking: Asking, name: str) -> dict[str, Any]:
    topic, index = parse_partition(name)

    async def look(client: Client) -> Facts:
        facts = await gather_facts(client, topic, index)
        full = [
            disk
            for broker in facts.partition.replicas
            if broker in facts.alive
            for disk in await full_disks(client, broker, (topic, index))
        ]
        facts = facts._replace(full_disks=tuple(full))
        if facts.high_watermark is None:
            return facts
        held = await what_holds(client, topic, index, facts.high_watermark)
        return facts._replace(held=held)

    return as_document(asking.run(look))


async def gather_facts(client: Client, topic: str, index: int) -> Facts:
    view = await client.brokers()
    found = await named_topic(client, topic)
    partition = next((each for each in found.partitions if each.partition == index), None)
    if partition is None:
        raise CommandError(
            f"{topic} has no partition {index}",
            why=f"it has the partitions 0 to {len(found.partitions) - 1}",
            advice=f"tidelog topic describe {topic}",
            code=USAGE,
        )
    settings = await topic_settings(client, topic)
    min_isr = min_isr_in(settings)
    hosts = [view.brokers[each] for each in partition.replicas if each in view.brokers]
    refused = await client.refused_by(hosts)
    alive = tuple(sorted(set(view.brokers).difference(refused)))
    judgement = judge(partition, alive, min_isr)
    start, end = None, None
    if judgement.state != OFFLINE and partition.leader not in refused:
        start, end = await offsets_of(client, partition)
    leader = view.brokers.get(partition.leader) if partition.leader is not None else None
    told = await asyncio.to_thread(ask_leader, partition, leader)
    return Facts(partition, judgement, alive, min_isr, start, end, told, refused=refused)


def ask_leader(partition: PartitionView, leader: BrokerView | None) -> dict[str, Any]:
    """Only a cluster of this directory can be asked: its state file knows the ports."""
    node = local_http(leader)
    if node is None:
        return {}
    return partition_in(read_state(node), partition.topic, partition.partition)


def sentences(facts: Facts) -> list[str]:
    told = [_leader(facts), _isr(facts), *_gone(facts), *_full(facts), *_watermark(facts)]
    if facts.held is not None:
        told += held_sentences(facts.held, int(time.time() * 1000))
    return told


def _leader(facts: Facts) -> str:
    partition = facts.partition
    if partition.leader is None:
        who = ", ".join(map(str, partition.replicas))
        return (
            f"Nobody leads {facts.name} since leader epoch {partition.leader_epoch}: of its "
            f"replicas {who} none that is alive holds everything that was committed."
        )
    elected = f"broker {partition.leader} leads {facts.name} in leader epoch"
    told = f"{elected[0].upper()}{elected[1:]} {partition.leader_epoch}"
    if partition.preferred != partition.leader:
        where = "is alive" if partition.preferred in facts.alive else "is down"
        return f"{told}, in place of the preferred broker {partition.preferred}, which {where}."
    return f"{told}, as its assignment prefers."


def _isr(facts: Facts) -> str:
    partition = facts.partition
    members = ",".join(map(str, partition.isr)) or "empty"
    if not partition.out_of_sync:
        return f"All {len(partition.replicas)} replicas are in sync."
    out = [_absence(facts, each) for each in partition.out_of_sync]
    since_ms = facts.told.get("under_replicated_since_ms")
    since = ""
    if isinstance(since_ms, int):
        since = f" for {duration(max(0.0, time.time() - since_ms / 1000))}"
    return f"The ISR is {members}{since}: {'; '.join(out)}."


def _absence(facts: Facts, broker: int) -> str:
    if broker not in facts.alive:
        return f"broker {broker} is down"
    if any(disk.broker == broker for disk in facts.full_disks):
        return f"broker {broker} is alive and has no room"
    for follower in facts.told.get("followers", ()):
        if isinstance(follower, dict) and follower.get("broker") == broker:
            return f"broker {broker} is alive and {follower.get('lag')} records behind"
    return f"broker {broker} is alive and catching up"


def _gone(facts: Facts) -> list[str]:
    """What the metadata do not say yet: only a refused connection proves it (ADR 0017)."""
    return [
        f"Broker {each} refuses connections, so its process is gone; the controller is about to "
        "fence it."
        for each in facts.refused
    ]


def _full(facts: Facts) -> list[str]:
    """`The disk of /data on broker 1 is full: …`"""
    told = [str(disk) for disk in facts.full_disks]
    return [f"{each[0].upper()}{each[1:]}." for each in told]


def _watermark(facts: Facts) -> list[str]:
    if facts.high_watermark is None:
        return []
    told = [f"Everything below {facts.high_watermark} is committed."]
    end = facts.told.get("log_end_offset")
    if isinstance(end, int) and end > facts.high_watermark:
        waiting = end - facts.high_watermark
        members = ",".join(map(str, facts.partition.isr))
        told.append(f"{waiting} more at the leader wait until {members} have them.")
    if facts.judgement.state == UNDER_MIN_ISR:
        told.append(f"Writes with acks=all are refused: {facts.judgement.reason}.")
    return told


def next_command(facts: Facts) -> str:
    partition = facts.partition
    down = [each for each in partition.out_of_sync if each not in facts.alive]
    if down:
        return f"tidelog chaos restart {down[0]}    (or start node {down[0]} where it runs)"
    if facts.full_disks:
        disk = facts.full_disks[0]
        return f"free or add space for {disk.log_dir} on broker {disk.broker}"
    if facts.judgement.state == OFFLINE:
        return f"tidelog leaders elect {facts.name} --unclean    (may lose records)"
    if facts.judgement.state != HEALTHY:
        return f"tidelog topic watch {facts.name}"
    if facts.held is not None:
        return held_command(facts.held, facts.name)
    if partition.preferred != partition.leader:
        return f"tidelog leaders elect {facts.name}"
    return f"tidelog consume {partition.topic} --from -5 -n 5"


def as_document(facts: Facts) -> dict[str, Any]:
    partition = facts.partition
    return {
        "partition": facts.name,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "state": facts.judgement.state,
        "high_watermark": facts.high_watermark,
        "log_start_offset": facts.log_start_offset,
        "last_stable_offset": facts.high_watermark
        if facts.held is None
        else facts.held.last_stable_offset,
        "held_by": None if facts.held is None else held_document(facts.held),
        "min_insync_replicas": facts.min_isr,
        "full_disks": [disk._asdict() for disk in facts.full_disks],
        "explanation": " ".join(sentences(facts)),
        "next": next_command(facts),
    }
