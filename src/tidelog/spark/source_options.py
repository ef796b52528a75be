"""What the options of a source mean, for streams and for batches (spark.md §4).

Names and meanings are those of the stock Kafka connector, so that a job changes one word. What
the stock connector refuses is refused here too, and so is a name that nobody knows.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.spark.client_settings import (
    LOGGER,
    OF_BOTH,
    OF_SOURCE,
    ClientSettings,
    bootstrap_of,
    client_settings,
)
from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.ranges import Offsets, TopicPartition
from tidelog.spark.security_options import BOOTSTRAP

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
ENDINGS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
TRIGGERS: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
KNOWN: Final = frozenset(
    (
        *SUBSCRIPTIONS,
        *ENDINGS,
        *TRIGGERS,
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "packPartitions",
        "includeHeaders",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "partition.metadata.cache.ttl.ms",
        "groupIdPrefix",
        "sourceId",
        "commitOffsets",
        "valueFormat",
        "registry",
        "newFields",
        "subject",
        "keyFormat",
        "mode",
        "path",
        "view",
    )
)
MAX_INT64: Final = 2**63 - 1
ISOLATION: Final = ("read_committed", "read_uncommitted")
VIEWS: Final = ("records", "batches")
PREFIX: Final = "spark-tidelog-source"
PATH_ADVICE: Final = "give the data directory (log.dirs) of a node, or several with commas between"

_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_UNITS_MS: Final = {
    None: 1.0,
    "us": 0.001,
    "ms": 1.0,
    "s": 1e3,
    "m": 6e4,
    "min": 6e4,
    "h": 3.6e6,
    "d": 8.64e7,
}
_EXAMPLE_OFFSETS: Final = '{"orders":{"0":23,"1":-2}}'
_EXAMPLE_TIMES: Final = '{"orders":{"0":1700000000000}}'


class NotForThis(InvalidOption):
    """An option that a batch takes and a stream does not."""


class Subscription(NamedTuple):
    """Which partitions to read; exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


class Place(NamedTuple):
    """Where to start or to end, as the options say it. The first that is given counts."""

    option: str
    """Which option said so, for messages."""
    everywhere: int = LATEST
    """EARLIEST or LATEST."""
    time_ms: int | None = None
    times_ms: Offsets | None = None
    offsets: Offsets | None = None
    """May hold EARLIEST and LATEST."""
    latest_if_none: bool = False
    """Nothing at or after a time means the end, not an error."""

    def as_text(self) -> str:
        """The same for the same options: what a kept start was resolved from."""
        return repr((self.everywhere, self.time_ms, self.times_ms, self.offsets))


class Admission(NamedTuple):
    """How much one micro-batch may and must have."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000

    @property
    def is_limited(self) -> bool:
        return not (self.max_offsets is self.max_bytes is self.min_offsets is None)


class Packing(NamedTuple):
    """How ranges become tasks."""

    min_partitions: int | None = None
    max_records: int | None = None
    shares_tasks: bool = False
    """Small ranges are read by one task (`packPartitions`)."""


class Lookups(NamedTuple):
    """How the driver asks for offsets."""

    retries: int = 3
    interval_ms: int = 1_000
    metadata_ttl_ms: int = 1_000
    """-1: ask for partitions whenever offsets are asked for."""


class SourceOptions(NamedTuple):
    bootstrap: str
    client: ClientSettings
    subscription: Subscription
    start: Place
    end: Place
    fail_on_data_loss: bool
    admission: Admission
    packing: Packing
    lookups: Lookups
    poll_timeout_ms: int
    committed: bool
    stable_id: str | None
    """A group under which where a query started is kept."""
    commits_offsets: bool
    paths: tuple[str, ...] = ()
    """Data directories of nodes: their files are read, and brokers asked for bounds if given."""

    @property
    def start_group(self) -> str | None:
        """Not the group of `commitOffsets`: that one moves on."""
        return f"{self.stable_id}.start" if self.stable_id else None


def source_options(values: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """InvalidOption for the first thing that is wrong."""
    options = Options(values)
    options.refuse_unknown(KNOWN, OF_BOTH | OF_SOURCE)
    _check_mode(options, streaming=streaming)
    kafka = options.with_prefix("kafka.")
    isolation = options.one_of("kafka.isolation.level", ISOLATION[0], ISOLATION)
    stable_id = _stable_id(options)
    commits = options.truth("commitOffsets", False)
    if commits and stable_id is None:
        raise InvalidOption(
            "commitOffsets needs a group to commit to", "give sourceId or kafka.group.id"
        )
    paths = _paths(options, streaming=streaming)
    return SourceOptions(
        bootstrap="" if paths and BOOTSTRAP not in options else bootstrap_of(options),
        client=client_settings(kafka, for_sink=False),
        subscription=_subscription(options),
        start=_start(options, streaming=streaming),
        end=_end(options),
        fail_on_data_loss=options.truth("failOnDataLoss", True),
        admission=_admission(options),
        packing=Packing(
            options.whole("minPartitions", least=1),
            options.whole("maxRecordsPerPartition", least=1),
            options.truth("packPartitions", False),
        ),
        lookups=_lookups(options),
        poll_timeout_ms=_whole(options, "kafkaConsumer.pollTimeoutMs", 120_000, least=1),
        committed=isolation == ISOLATION[0],
        stable_id=stable_id,
        commits_offsets=commits,
        paths=paths,
    )


def _check_mode(options: Options, *, streaming: bool) -> None:
    is_of_batches = options.one_of("view", VIEWS[0], VIEWS) != VIEWS[0]
    if is_of_batches and (streaming or "path" not in options):
        raise NotForThis("brokers give records, and view=batches asks for batches", PATH_ADVICE)
    if streaming:
        for name in ENDINGS:
            if name in options:
                raise NotForThis(f"the option {name} is for batches", "a stream has no end")
        return
    for name in (*TRIGGERS, "sourceId", "commitOffsets"):
        if name in options:
            LOGGER.warning("the option %s has no effect on a batch", name)


def _paths(options: Options, *, streaming: bool) -> tuple[str, ...]:
    if "path" not in options:
        return ()
    if streaming:
        raise NotForThis(
            "the option path is for batches", "leave it out: a stream reads through brokers"
        )
    parts = (part.strip() for part in options.required("path", PATH_ADVICE).split(","))
    paths = tuple(dict.fromkeys(part.removeprefix("file:") for part in parts if part))
    if not paths:
        raise InvalidOption("the option path names no directory", PATH_ADVICE)
    return paths


def _whole(options: Options, name: str, default: int, *, least: int = 0) -> int:
    number = options.whole(name, default, least=least)
    assert number is not None, name
    return number


def _lookups(options: Options) -> Lookups:
    plain = Lookups()
    return Lookups(
        _whole(options, "fetchOffset.numRetries", plain.retries),
        _whole(options, "fetchOffset.retryIntervalMs", plain.interval_ms),
        _whole(options, "partition.metadata.cache.ttl.ms", plain.metadata_ttl_ms, least=-1),
    )


def _stable_id(options: Options) -> str | None:
    group = (options.text("kafka.group.id") or "").strip()
    source = (options.text("sourceId") or "").strip()
    if "sourceId" in options and not source:
        raise InvalidOption("the option sourceId is empty", "give it a name of its own")
    if group:
        if "groupIdPrefix" in options:
            LOGGER.warning("the option groupIdPrefix has no effect beside kafka.group.id")
        return group
    prefix = (options.text("groupIdPrefix") or "").strip() or PREFIX
    return f"{prefix}-{source}" if source else None


# ---- which partitions ----


def _subscription(options: Options) -> Subscription:
    given = [name for name in SUBSCRIPTIONS if name in options]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "no topic is given"
        raise InvalidOption(what, f"give exactly one of {', '.join(SUBSCRIPTIONS)}")
    text = (options.text(given[0]) or "").strip()
    if not text:
        raise InvalidOption(f"the option {given[0]} is empty", "name a topic")
    if given[0] == "subscribe":
        names = (name.strip() for name in text.split(","))
        topics = tuple(dict.fromkeys(name for name in names if name))
        if not topics:
            raise InvalidOption(f"the option subscribe is {text!r}", "name a topic")
        return Subscription(topics=topics)
    if given[0] == "subscribePattern":
        return Subscription(pattern=text)
    return Subscription(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        document = json.loads(text)
        pairs = [(topic, index) for topic, indexes in document.items() for index in indexes]
        good = all(type(index) is int and index >= 0 for _, index in pairs)
    except (ValueError, AttributeError, TypeError):
        good, pairs = False, []
    if not good or not pairs:
        raise _malformed("assign", text, '{"orders":[0,1]}')
    return tuple(sorted(set(pairs)))


def _malformed(name: str, text: str, example: str) -> InvalidOption:
    shown = text if len(text) <= 80 else text[:79] + "…"
    return InvalidOption(f"the option {name} is {shown!r}", f"give something like {example}")


# ---- where to start and to end ----


def _start(options: Options, *, streaming: bool) -> Place:
    place = _place(options, "starting", LATEST if streaming else EARLIEST)
    strategy = options.one_of("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    place = place._replace(latest_if_none=strategy == "latest")
    if not streaming and place.option == "startingOffsets":
        if place.offsets is None and place.everywhere == LATEST:
            raise InvalidOption(
                "startingOffsets is latest, and a batch would have nothing to read",
                "give earliest, or offsets",
            )
        if place.offsets is not None and LATEST in place.offsets.values():
            raise InvalidOption(
                "startingOffsets holds -1 (latest), which a batch cannot start from",
                "give -2 (earliest) or an offset",
            )
    return place


def _end(options: Options) -> Place:
    place = _place(options, "ending", LATEST)._replace(latest_if_none=True)
    if place.option == "endingOffsets":
        if place.offsets is None and place.everywhere == EARLIEST:
            raise InvalidOption("endingOffsets is earliest", "give latest, or offsets")
        if place.offsets is not None and EARLIEST in place.offsets.values():
            raise InvalidOption(
                "endingOffsets holds -2 (earliest)", "give -1 (latest) or an offset"
            )
    return place


def _place(options: Options, side: str, default: int) -> Place:
    """A time for all partitions counts more than one for each, and that more than offsets."""
    by_time, by_times, by_offsets = (
        f"{side}Timestamp",
        f"{side}OffsetsByTimestamp",
        f"{side}Offsets",
    )
    time_ms = options.whole(by_time)
    if time_ms is not None and time_ms > MAX_INT64:
        raise _malformed(by_time, str(time_ms), "1700000000000")
    if time_ms is not None:
        return Place(by_time, default, time_ms=time_ms)
    text = (options.text(by_times) or "").strip()
    if text:
        times = _numbers(by_times, text, _EXAMPLE_TIMES, least=0)
        return Place(by_times, default, times_ms=times)
    text = (options.text(by_offsets) or "").strip()
    named = {"": default, "earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return Place(by_offsets, named)
    example = f"earliest, latest or {_EXAMPLE_OFFSETS}"
    return Place(by_offsets, default, offsets=_numbers(by_offsets, text, example, least=EARLIEST))


def _numbers(name: str, text: str, example: str, *, least: int) -> Offsets:
    try:
        document = json.loads(text)
        found = {
            (topic, int(index)): number
            for topic, numbers in document.items()
            for index, number in numbers.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise _malformed(name, text, example) from None
    good = all(type(each) is int and least <= each <= MAX_INT64 for each in found.values())
    if not found or not good:
        raise _malformed(name, text, example)
    return found


# ---- how much at once ----


def _admission(options: Options) -> Admission:
    most = options.whole("maxOffsetsPerTrigger", least=1)
    least = options.whole("minOffsetsPerTrigger", least=1)
    if most is not None and least is not None and most < least:
        raise InvalidOption(
            f"maxOffsetsPerTrigger is {most}, below minOffsetsPerTrigger, which is {least}",
            "give a higher one",
        )
    delay = options.text("maxTriggerDelay")
    delay_ms = Admission().max_delay_ms if delay is None else _duration("maxTriggerDelay", delay)
    return Admission(most, options.whole("maxBytesPerTrigger", least=1), least, delay_ms)


def _duration(name: str, text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidOption(f"the option {name} is {text!r}", "give something like 500ms, 30s, 15m")
    return int(int(found[1]) * _UNITS_MS[found[2]])
