"""Options of the sink, and which columns a row needs to become a record."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.spark.client_settings import (
    OF_BOTH,
    OF_SINK,
    ClientSettings,
    bootstrap_of,
    client_settings,
)
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.options import Options
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, located, scheme_of
from tidelog.wire.arrow import BatchSettings
from tidelog.wire.records import CODEC_NAMES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS: Final = (
    "topic",
    "exactlyOnce",
    "sinkId",
    "stagingDir",
    "storeSecrets",
    "compression",
    "includeHeaders",  # of the stock sink, which writes headers without it too
    "txnAppId",
    "txnVersion",
    "offsetMap",  # of mirrors: the id of the cluster that rows come from
    # Spark hands these over too.
    "checkpointLocation",
    "queryName",
    "path",
)
BATCH_BYTES: Final = 512 * 1024
TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Longer than Kafka's minute: all of a micro-batch is written within it."""
DELIVERY_TIMEOUT_MS: Final = 60_000
"""How long a partition without a leader is waited for."""
LONGEST_ID: Final = 200
ACKS_ALL: Final = -1

TEXT_OR_BYTES: Final = ("string", "binary")
COLUMNS: Final = {
    "key": TEXT_OR_BYTES,
    "value": TEXT_OR_BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
"""The types of columns that records are made of; others are left out, as stock does."""

SOURCE_OFFSET: Final = "sourceOffset"
NEEDED_BY_MAP: Final = {SOURCE_OFFSET: "bigint", "topic": "string", "partition": "int"}


class Application(NamedTuple):
    """Identity of a batch write that may be repeated: written once for each version."""

    name: str
    version: int


class SinkSettings(NamedTuple):
    """Everything that tasks and the commit of a sink must know."""

    bootstrap: str
    topic: str | None
    """None: every row names its own."""
    exactly_once: bool
    sink_id: str | None
    application: Application | None
    staging: Store | None
    checkpoint: str | None
    """The checkpoint's local path, if it has one."""
    client: ClientSettings
    batches: BatchSettings
    offset_map: str | None = None
    """The cluster whose offsets are in the column `sourceOffset`: where its records come to lie
    over here is kept."""


def sink_settings(options: Options) -> SinkSettings:
    """InvalidOption says which option is wrong."""
    options.refuse_unknown(OPTIONS, OF_BOTH | OF_SINK)
    kafka = options.with_prefix("kafka.")
    client = client_settings(kafka, for_sink=True)
    if "transaction.timeout.ms" not in kafka:
        client = client._replace(transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    if "delivery.timeout.ms" not in kafka:
        client = client._replace(delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
    exactly_once = options.truth("exactlyOnce", True)
    if exactly_once and client.acks != ACKS_ALL:
        raise InvalidOption(
            "exactly once needs the acknowledgement of all replicas",
            "leave kafka.acks out, or say exactlyOnce=false",
        )
    if client.acks == 0:
        raise InvalidOption(
            "the option kafka.acks is 0, so nobody would know what was written", "give all or 1"
        )
    batch_bytes = client.batch_bytes if "batch.size" in kafka else BATCH_BYTES
    return SinkSettings(
        bootstrap_of(options),
        _name_of("topic", options),
        exactly_once,
        _name_of("sinkId", options),
        _application(options, exactly_once=exactly_once),
        _staging(options),
        local_path(options.text("checkpointLocation")),
        client,
        BatchSettings(
            codec=_codec(options, client, given="compression.type" in kafka),
            max_batch_bytes=min(batch_bytes, client.request_bytes),
        ),
        _offset_map(options, exactly_once=exactly_once),
    )


def _offset_map(options: Options, *, exactly_once: bool) -> str | None:
    cluster_id = _name_of("offsetMap", options)
    if cluster_id is not None and not exactly_once:
        raise InvalidOption(
            "offsetMap is kept exactly once, and exactlyOnce is false", "leave one of the two out"
        )
    return cluster_id


def _staging(options: Options) -> Store | None:
    """A directory as it was given, for it may be another one on each machine; or a place in an
    object store, with what the driver knows of the way there."""
    directory = _name_of("stagingDir", options)
    if directory is None or "://" not in directory:
        return None if directory is None else Store(directory)
    place = located(directory)
    given = json.loads(options.text("storeSecrets") or "{}")
    return Store(place, store_options(scheme_of(place), given))


def _name_of(option: str, options: Options) -> str | None:
    if option not in options:
        return None
    name = options.required(option, "give it a value or leave it out")
    if option == "sinkId" and len(name) > LONGEST_ID:
        raise InvalidOption(
            f"the option sinkId has {len(name)} characters", f"give at most {LONGEST_ID}"
        )
    return name


def _application(options: Options, *, exactly_once: bool) -> Application | None:
    name, version = _name_of("txnAppId", options), options.whole("txnVersion")
    if name is None and version is None:
        return None
    if name is None or version is None:
        missing = "txnAppId" if name is None else "txnVersion"
        raise InvalidOption(f"the option {missing} is missing", "give both or neither")
    if not exactly_once:
        raise InvalidOption(
            "txnAppId makes a repeated write a single one, and exactlyOnce is false",
            "leave one of the two out",
        )
    return Application(name, version)


def _codec(options: Options, client: ClientSettings, *, given: bool) -> int:
    names = {name: codec for codec, name in CODEC_NAMES.items()}
    wanted = options.one_of("compression", client.compression, names)
    if given and wanted != client.compression:
        raise InvalidOption(
            f"compression is {wanted} and kafka.compression.type is {client.compression}",
            "leave one of them out",
        )
    return names[wanted]


def local_path(location: str | None) -> str | None:
    """The path of a location on a local disk; None for other file systems."""
    if not location:
        return None
    parts = urlsplit(location)
    return parts.path if parts.scheme in ("", "file") and not parts.netloc else None


def temporary_directory() -> Path:
    return Path(tempfile.gettempdir())


def check_columns(schema: "StructType", settings: SinkSettings) -> tuple[str, ...]:
    """The columns that records are made of; TidelogError names the one that is wrong."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in kinds:
        found = ", ".join(kinds) or "none"
        raise TidelogError(
            f"rows have no column value, only {found}", "select what to write AS value"
        )
    if settings.topic is None and "topic" not in kinds:
        raise InvalidOption(
            "nothing says which topic to write to", "set the option topic or add a column topic"
        )
    for name, allowed in COLUMNS.items():
        if name in kinds and kinds[name] not in allowed:
            wanted = " or ".join(allowed)
            raise TidelogError(
                f"column {name} is {kinds[name]}, it must be {wanted}", f"cast it to {allowed[0]}"
            )
    if settings.offset_map is not None:
        for name, kind in NEEDED_BY_MAP.items():
            if kinds.get(name) != kind:
                raise TidelogError(
                    f"offsetMap needs a column {name} of type {kind}", "select it, or leave it out"
                )
    left_out = "topic" if settings.topic is not None else None
    return tuple(name for name in COLUMNS if name in kinds and name != left_out)


def refuse_application(settings: SinkSettings) -> None:
    if settings.application is not None:
        raise InvalidOption(
            "a streaming query knows by itself which batches it has written",
            "leave txnAppId and txnVersion out; they are for batch writes",
        )


def refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise TidelogError("a topic is appended to and never overwritten", 'say .mode("append")')
