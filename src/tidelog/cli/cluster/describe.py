"""`tidelog cluster describe`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import plural
from tidelog.cli.tables import Column, show
from tidelog.cli.watching import watch_option, watched
from tidelog.config.quantities import SIZE_UNITS
from tidelog.survey.cluster import Survey, survey

COLUMNS = (
    Column("BROKER", "broker"),
    Column("ADDRESS", "address"),
    Column("STATE", "state"),
    Column("LEADERS (PREFERRED)", "leaders_words"),
    Column("REPLICAS", "replicas"),
    Column("DISK", "disk"),
    Column("QUORUM", "quorum"),
    Column("RACK", "rack", wide=True),
)


@click.command(name="describe")
@asks_cluster
@watch_option
@table_option
@shared_options
def command(asking: Asking, watch: bool, output: str) -> None:
    """Show the brokers, the quorum and how many partitions are well.

    \b
    Examples:
      tidelog cluster describe
      tidelog cluster describe -o json
    """

    def once() -> None:
        found = asking.run(survey)
        document = as_document(found)
        rows = [
            {
                **row,
                "leaders_words": f"{row['leaders']} ({row['preferred']})",
                "disk": size_words(row["disk_bytes"]),
            }
            for row in document["brokers"]
        ]
        show(output, document, COLUMNS, rows, head=head_of(found))

    watched(once, watch=watch)


def head_of(found: Survey) -> str:
    alive = sum(broker.alive for broker in found.brokers)
    parts = [
        found.view.cluster_id or "cluster",
        f"{alive} of {plural(len(found.brokers), 'broker')}",
    ]
    if found.quorum is not None:
        behind = max(
            (found.quorum.high_watermark - each.log_end_offset for each in found.quorum.voters),
            default=0,
        )
        parts.append(f"active controller {found.quorum.leader}, epoch {found.quorum.leader_epoch}")
        parts.append(f"metadata offset {found.quorum.high_watermark}, quorum lag {max(0, behind)}")
    topics = [each for each in found.view.topics.values() if not each.is_internal]
    parts.append(plural(len(topics), "topic"))
    unwell = len(found.unwell)
    count = plural(len(found.partitions), "partition")
    parts.append(f"{count}, {f'{unwell} not healthy' if unwell else 'all healthy'}")
    return " · ".join(parts)


def as_document(found: Survey) -> dict[str, Any]:
    quorum = found.quorum
    return {
        "cluster_id": found.view.cluster_id,
        "controller": found.view.controller if quorum is None else quorum.leader,
        "controller_epoch": None if quorum is None else quorum.leader_epoch,
        "metadata_offset": None if quorum is None else quorum.high_watermark,
        "partitions": len(found.partitions),
        "not_healthy": [f"{each.topic}-{each.partition}" for each, _ in found.unwell],
        "brokers": [
            {
                "broker": broker.id,
                "address": f"{broker.host}:{broker.port}",
                "rack": broker.rack,
                "state": "alive" if broker.alive else "down",
                "leaders": found.led_by(broker.id),
                "preferred": found.preferred_at(broker.id),
                "replicas": found.replicas_at(broker.id),
                "disk_bytes": broker.disk_bytes,
                "quorum": found.quorum_role(broker.id),
            }
            for broker in found.brokers
        ],
    }


def size_words(size_bytes: int | None) -> str | None:
    if size_bytes is None:
        return None
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= SIZE_UNITS[unit]:
            return f"{size_bytes / SIZE_UNITS[unit]:.1f} {unit}"
    return f"{size_bytes} B"
