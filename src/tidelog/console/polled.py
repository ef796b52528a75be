"""The documents of any Kafka, as one client sees it: asked for, and remembered for a moment."""

import asyncio
import time
from typing import Any

from tidelog.client import Admin, Client, KafkaError, PartitionView
from tidelog.client.errors import ClientError
from tidelog.console.live import BAD, OK, WARN, Document
from tidelog.host.ports import NetworkError
from tidelog.survey.cluster import SeenBroker, Survey, survey
from tidelog.survey.health import complaints
from tidelog.survey.partition_state import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Judgement,
    judge,
)
from tidelog.survey.topics import min_isr_in, named_topic, offsets_of, topic_settings

REMEMBERED_SECONDS = 2.0
SHOWN = 20


class Polled:
    """One client's view of its cluster."""

    __slots__ = ("_asking", "_client", "_found", "_found_at")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: Survey | None = None
        self._found_at = 0.0
        self._asking = asyncio.Lock()

    async def survey(self) -> Survey:
        async with self._asking:
            if self._found is None or time.monotonic() - self._found_at > REMEMBERED_SECONDS:
                self._found = await survey(self._client)
                self._found_at = time.monotonic()
            return self._found

    async def overview(self) -> Document:
        found = await self.survey()
        quorum = found.quorum
        unwell = [judgement.state for _, judgement in found.unwell]
        voters = [] if quorum is None else quorum.voters
        lags = [] if quorum is None else [quorum.high_watermark - v.log_end_offset for v in voters]
        return {
            "health": health(found),
            "brokers": [broker(found, each) for each in found.brokers],
            "controller": {
                "id": found.view.controller if quorum is None else quorum.leader,
                "epoch": None if quorum is None else quorum.leader_epoch,
                "metadata_offset": None if quorum is None else quorum.high_watermark,
                "quorum_lag": max(0, *lags) if lags else None,
            },
            "topics": len(found.view.topics),
            "partitions": len(found.partitions),
            "under_replicated": sum(s in (UNDER_REPLICATED, UNDER_MIN_ISR) for s in unwell),
            "offline": unwell.count(OFFLINE),
            "rates": {"in_records": None, "in_bytes": None, "out_bytes": None},
            "events": [],
        }

    async def partition(self, topic: str, index: int) -> Document:
        client = self._client
        view = await client.brokers()
        found = await named_topic(client, topic)
        partition = next((each for each in found.partitions if each.partition == index), None)
        if partition is None:
            last = len(found.partitions) - 1
            raise KafkaError(3, f"{topic} has the partitions 0 to {last}")
        min_isr = min_isr_in(await topic_settings(client, topic))
        judgement = judge(partition, view.brokers, min_isr)
        start, end = None, None
        if judgement.state != OFFLINE:
            start, end = await offsets_of(client, partition)
        logs = await self._replicas(partition, start, end, list(view.brokers))
        head = row(partition, judgement, min_isr, start, end)
        return {
            **head,
            "replica_logs": logs,
            "parked_produces": 0,
            "consumers": [],
            "producers": [],
            "messages": [],
            "mode": "polled",
        }

    async def _replicas(
        self, partition: PartitionView, start: int | None, end: int | None, alive: list[int]
    ) -> list[Document]:
        asked = (self._lag_of(each, partition) for each in partition.replicas if each in alive)
        lags = dict(await asyncio.gather(*asked))
        return [
            replica(partition, each, start, end, lag=lags.get(each), is_alive=each in alive)
            for each in partition.replicas
        ]

    async def _lag_of(self, broker: int, partition: PartitionView) -> tuple[int, int | None]:
        """Followers say themselves how far behind they are; None if they do not."""
        try:
            on_disk = await Admin(self._client).log_dirs(broker)
        except (ClientError, NetworkError):
            return broker, None
        where = (partition.topic, partition.partition)
        lags = (e.offset_lag for e in on_disk if (e.topic, e.partition) == where)
        return broker, next(lags, None)


def health(found: Survey) -> list[Document]:
    sentences = complaints(found)[:SHOWN]
    if not sentences:
        return [{"severity": OK, "text": "healthy", "since_ms": None, "next": None}]
    return [
        {
            "severity": BAD if OFFLINE in text or UNDER_MIN_ISR in text else WARN,
            "text": text,
            "since_ms": None,
            "next": "tidelog cluster health",
        }
        for text in sentences
    ]


def broker(found: Survey, seen: SeenBroker) -> Document:
    role = found.quorum_role(seen.id)
    name, _, lag = (role or "").partition(", lag ")
    return {
        "id": seen.id,
        "address": f"{seen.host}:{seen.port}",
        "rack": seen.rack,
        "roles": ["broker"],
        "state": "alive" if seen.alive else "down",
        "since_ms": None,
        "leaders": found.led_by(seen.id),
        "preferred": found.preferred_at(seen.id),
        "replicas": found.replicas_at(seen.id),
        "disk_bytes": seen.disk_bytes,
        "usable_bytes": None,
        "disk_full": bool(seen.full_disks),
        "quorum": name or None,
        "quorum_lag": int(lag) if lag else None,
        "up_ms": None,
    }


def row(
    partition: PartitionView,
    judgement: Judgement,
    min_isr: int | None,
    start: int | None = None,
    end: int | None = None,
) -> Document:
    return {
        "name": f"{partition.topic}-{partition.partition}",
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": partition.leader,
        "preferred": partition.preferred,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": None,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "min_isr": min_isr,
        "log_start": start,
        "high_watermark": end,
        "log_end": end,
        "state": judgement.state,
        "since_ms": None,
        "bytes": None,
    }


def replica(
    partition: PartitionView,
    broker_id: int,
    start: int | None,
    end: int | None,
    *,
    lag: int | None,
    is_alive: bool,
) -> dict[str, Any]:
    is_leader = broker_id == partition.leader
    known = end if is_leader else None if end is None or lag is None else max(0, end - lag)
    return {
        "broker": broker_id,
        "role": "leader" if is_leader else "follower",
        "in_isr": broker_id in partition.isr,
        "state": "alive" if is_alive else "down",
        "last_seen_ms": None,
        "log_start": start,
        "high_watermark": end if is_leader else None,
        "log_end": known,
        "epochs": [],
        "diverges_at": None,
        "lag": 0 if is_leader else lag,
    }
