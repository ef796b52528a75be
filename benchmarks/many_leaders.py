"""Thousands of partitions that get their first record, and later their next leader, at once.

Three nodes with a topic of three replicas: one record to every partition at the same moment; when
all is quiet, SIGKILL to one node; one more record to every partition. Printed is how long each took
and what must not happen: a survivor that is fenced, a partition that moves without need, an
election among controllers that nobody killed. Exit code 1 if it did.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import Any, NamedTuple

from tidelog.bench.compare.system import Running, SystemFailed
from tidelog.bench.compare.tidelog_side import TidelogSystem
from tidelog.bench.compare.topics import wait_until
from tidelog.bench.compare.writing import FILL, Writer
from tidelog.client import Admin, Client, KafkaError

TOPIC = "many"
SETTLE_SECONDS = 5.0


class Seen(NamedTuple):
    """The cluster as its nodes describe it."""

    leaders: tuple[int | None, ...]
    leader_epochs: tuple[int, ...]
    fenced: tuple[int, ...]
    controller: int
    controller_epoch: int


async def look(bootstrap_servers: str) -> Seen:
    async with Client(bootstrap_servers) as client:
        partitions = (await client.topic(TOPIC)).partitions
        admin = Admin(client)
        quorum = await admin.quorum()
        brokers = await admin.registered_brokers()
    return Seen(
        tuple(each.leader for each in partitions),
        tuple(each.leader_epoch for each in partitions),
        tuple(each.id for each in brokers if each.fenced),
        quorum.leader,
        quorum.leader_epoch,
    )


def seen(running: Running) -> Seen:
    return asyncio.run(look(running.bootstrap_servers))


def write_to_all(running: Running, partitions: int) -> float:
    """Seconds until every partition has acknowledged one record."""
    begin = time.monotonic()
    writer = Writer(running.bootstrap_servers, FILL)
    for partition in range(partitions):
        writer.send(TOPIC, b"x" * 100, partition)
    writer.finish()
    return time.monotonic() - begin


def wait_led_without(running: Running, victim: int) -> float:
    begin = time.monotonic()

    def is_led() -> bool:
        try:
            leaders = seen(running).leaders
        except (KafkaError, OSError):  # whoever was asked is the one that was killed
            return False
        return not {victim, None} & {*leaders}

    wait_until(is_led, "every partition has a leader that lives")
    return time.monotonic() - begin


def moved(before: Seen, after: Seen) -> int:
    pairs = zip(before.leader_epochs, after.leader_epochs, strict=True)
    return sum(one != two for one, two in pairs)


def measure(partitions: int, *, fsync: bool, kill_controller: bool) -> dict[str, Any]:
    settings = {"ack.durability": "fsync"} if fsync else None
    with TidelogSystem().start(3, settings) as running:
        begin = time.monotonic()
        running.create_topic(TOPIC, partitions)
        created_s = time.monotonic() - begin
        first = seen(running)
        first_records_s = write_to_all(running, partitions)
        time.sleep(SETTLE_SECONDS)
        written = seen(running)
        victim = next(
            each for each in running.node_ids if (each == written.controller) == kill_controller
        )
        running.kill(victim)
        led_s = wait_led_without(running, victim)
        next_records_s = write_to_all(running, partitions)
        time.sleep(SETTLE_SECONDS)
        last = seen(running)
    return {
        "partitions": partitions,
        "fsync": fsync,
        "controller_killed": kill_controller,
        "created_s": created_s,
        "first_records_s": first_records_s,
        "led_after_kill_s": led_s,
        "next_records_s": next_records_s,
        "moved_before_the_kill": moved(first, written),
        "led_by_the_victim": written.leaders.count(victim),
        "moved_by_the_kill": moved(written, last),
        "survivors_fenced": [each for each in last.fenced if each != victim],
        "needless_elections": 0
        if kill_controller
        else last.controller_epoch - first.controller_epoch,
    }


def is_calm(found: dict[str, Any]) -> bool:
    return (
        found["moved_before_the_kill"] == 0
        and found["moved_by_the_kill"] == found["led_by_the_victim"]
        and not found["survivors_fenced"]
        and found["needless_elections"] == 0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Thousands of partitions led anew at once.")
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--fsync", action="store_true", help="acknowledged means synced")
    parser.add_argument("--controller", action="store_true", help="kill the active controller")
    given = parser.parse_args()
    if given.partitions < 1:
        parser.error(f"--partitions is {given.partitions}; it must be at least 1")
    try:
        found = measure(given.partitions, fsync=given.fsync, kill_controller=given.controller)
    except SystemFailed as reason:
        sys.exit(f"not measured: {reason}")
    for key, value in found.items():
        print(f"{key:<22} {round(value, 1) if isinstance(value, float) else value}")
    print(json.dumps(found))
    sys.exit(0 if is_calm(found) else 1)


if __name__ == "__main__":
    main()
