"""Settings and log directories, described over sockets."""

import asyncio
from pathlib import Path

import pytest

from support import loopback
from support.admin_story import AdminStory, admin_story
from support.batches import batch
from tidelog.config.broker_keys import KEYS
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.topic_configs import KNOWN
from tidelog.storage.errors import DirectoryOffline
from tidelog.wire.protocol.schemas.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.wire.protocol.schemas.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.protocol.schemas.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.wire.protocol.schemas.describe_log_dirs_response import DescribeLogDirsResponse
from tidelog.wire.protocol.schemas.list_config_resources_request import ListConfigResourcesRequest
from tidelog.wire.protocol.schemas.list_config_resources_response import (
    ListConfigResourcesResponse,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def described(
    s: AdminStory,
    kind: int,
    name: str,
    *,
    version: int = 4,
    keys: list[str] | None = None,
    everything: bool = False,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=everything, include_documentation=everything
    )
    answer = await s.ask(request, version)
    assert isinstance(answer, DescribeConfigsResponse)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert result.error_code == Error.NONE, result.error_message
    return {each.name: each for each in result.configs}


def test_a_topic_shows_every_setting_with_its_source(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path, log_segment_bytes="2097152") as s:
            s.create_topic("t")
            s.commit(
                r.Config(TOPIC, "t", "retention.ms", "5000"),
                r.Config(BROKER, "1", "max.message.bytes", "77"),
                r.Config(BROKER, "", "min.insync.replicas", "2"),
            )
            for version in range(1, 5):
                found = by_name(await described(s, TOPIC, "t", version=version))
                assert found.keys() == KNOWN.keys()
                seen = {
                    name: (found[name].value, found[name].config_source)
                    for name in (
                        "retention.ms",
                        "max.message.bytes",
                        "min.insync.replicas",
                        "segment.bytes",
                        "preallocate",
                    )
                }
                assert seen == {
                    "retention.ms": ("5000", 1),
                    "max.message.bytes": ("77", 2),
                    "min.insync.replicas": ("2", 3),
                    "segment.bytes": ("2097152", 4),
                    "preallocate": ("false", 5),
                }
                assert not any(each.read_only or each.is_sensitive for each in found.values())

    loopback.run(story)


def test_types_synonyms_and_meanings_come_when_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            s.commit(r.Config(TOPIC, "t", "retention.ms", "5000"))
            plain = by_name(await described(s, TOPIC, "t"))
            full = by_name(await described(s, TOPIC, "t", everything=True))
            assert not plain["retention.ms"].synonyms
            assert plain["retention.ms"].documentation is None
            assert [
                (each.name, each.value, each.source) for each in full["retention.ms"].synonyms
            ] == [
                ("retention.ms", "5000", 1),
                ("log.retention.ms", "604800000", 5),
                ("log.retention.hours", "168", 5),
            ]
            assert all(each.documentation for each in full.values())
            types = {name: each.config_type for name, each in full.items()}
            assert (types["preallocate"], types["compression.type"]) == (1, 2)
            assert (types["retention.ms"], types["cleanup.policy"]) == (5, 7)
            assert types["leader.replication.throttled.replicas"] == 7
            assert 0 not in types.values()

    loopback.run(story)


@pytest.mark.parametrize("keys", [None, []])
def test_a_filter_of_nothing_shows_all_and_a_name_shows_one(
    tmp_path: Path, keys: list[str] | None
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            assert len((await described(s, TOPIC, "t", keys=keys)).configs) == len(KNOWN)
            some = await described(s, TOPIC, "t", keys=["retention.ms", "no.such"])
            assert [each.name for each in some.configs] == ["retention.ms"]

    loopback.run(story)


def test_a_broker_shows_its_own_settings_and_the_clusters(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path, num_partitions="7") as s:
            rate = "leader.replication.throttled.rate"
            s.commit(
                r.Config(BROKER, "1", rate, "900"), r.Config(BROKER, "", "retention.ms", "8000")
            )
            own = by_name(await described(s, BROKER, "1"))
            assert own.keys() == KEYS.keys()
            seen = [
                (own[name].value, own[name].config_source, own[name].read_only)
                for name in (rate, "log.retention.ms", "num.partitions", "node.id")
            ]
            assert seen == [("900", 2, False), ("8000", 3, False), ("7", 4, True), ("1", 4, True)]
            fixed = [name for name in ("listeners", "advertised.listeners") if own[name].read_only]
            assert fixed == ["listeners", "advertised.listeners"]
            secrets = [each for each in own.values() if each.is_sensitive]
            assert secrets
            assert {each.value for each in secrets} == {None}
            cluster = await described(s, BROKER, "")
            assert [(each.name, each.value, each.config_source) for each in cluster.configs] == [
                ("log.retention.ms", "8000", 3)
            ]

    loopback.run(story)


def test_a_key_of_kafkas_that_has_no_effect_is_shown_where_it_was_set(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            key = "remote.log.reader.threads"
            assert key not in by_name(await described(s, BROKER, "1"))
            s.commit(r.Config(BROKER, "1", key, "20"), r.Config(BROKER, "", key, "30"))
            own = by_name(await described(s, BROKER, "1", everything=True))[key]
            assert (own.value, own.config_source, own.read_only) == ("20", 2, False)
            assert [(each.value, each.source) for each in own.synonyms] == [("20", 2), ("30", 3)]
            (cluster,) = (await described(s, BROKER, "")).configs
            assert (cluster.name, cluster.value) == (key, "30")

    loopback.run(story)


def test_what_has_no_settings_here_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            verdicts = []
            for kind, name in (
                (TOPIC, "missing"),
                (TOPIC, "bad name"),
                (BROKER, "2"),
                (BROKER, "one"),
                (LOGGER, "2"),
                (METRICS, ""),
                (GROUP, ""),
                (64, "1"),
            ):
                asked = asyncio.ensure_future(described(s, kind, name))
                while not asked.done():
                    s.pass_time(50)
                    await asyncio.sleep(0)
                result = await asked
                assert result.error_message
                assert not result.configs
                verdicts.append(result.error_code)
            assert verdicts == [
                Error.UNKNOWN_TOPIC_OR_PARTITION,
                Error.INVALID_TOPIC_EXCEPTION,
                *[Error.INVALID_REQUEST] * 6,
            ]

    loopback.run(story)


def test_a_topic_that_another_broker_knows_already_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            asked = asyncio.ensure_future(described(s, TOPIC, "fresh"))
            await s.other_traffic()
            assert not asked.done()
            s.create_topic("fresh")
            result = await asked
            assert (result.error_code, bool(result.configs)) == (0, True)

    loopback.run(story)


def test_resources_with_settings_are_listed_by_kind(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            s.commit(
                r.Config(GROUP, "g", "consumer.session.timeout.ms", "50000"),
                r.Config(METRICS, "all", "interval.ms", "1000"),
            )

            async def listed(*kinds: int, version: int = 1) -> ListConfigResourcesResponse:
                answer = await s.ask(
                    ListConfigResourcesRequest(resource_types=list(kinds)), version
                )
                assert isinstance(answer, ListConfigResourcesResponse)
                return answer

            everything = await listed()
            assert [(e.resource_type, e.resource_name) for e in everything.config_resources] == [
                (TOPIC, "t"),
                (BROKER, "1"),
                (BROKER, "2"),
                (BROKER, "3"),
                (LOGGER, "1"),
                (LOGGER, "2"),
                (LOGGER, "3"),
                (METRICS, "all"),
                (GROUP, "g"),
            ]
            assert [e.resource_name for e in (await listed(TOPIC)).config_resources] == ["t"]
            for only_metrics in (await listed(METRICS), await listed(version=0)):
                assert [e.resource_name for e in only_metrics.config_resources] == ["all"]
            assert (await listed(5)).error_code == Error.UNSUPPORTED_VERSION

    loopback.run(story)


async def directories(
    s: AdminStory, request: DescribeLogDirsRequest, version: int = 5
) -> DescribeLogDirsResponse:
    answer = await s.ask(request, version)
    assert isinstance(answer, DescribeLogDirsResponse)
    return answer


def test_log_directories_show_their_partitions_and_the_room_they_have(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path, directories=2) as s:
            s.create_topic("a", 2)
            s.create_topic("b", 1)
            log = s.broker.replicas.named("a", 0)
            assert log is not None
            log.log.append_as_leader(batch(b"record"), 0)
            for version in range(1, 6):
                answer = await directories(s, DescribeLogDirsRequest(topics=None), version)
                paths = [each.log_dir for each in answer.results]
                assert paths == [str(tmp_path / "logs-0"), str(tmp_path / "logs-1")]
                sizes = {
                    (topic.name, each.partition_index): each.partition_size
                    for result in answer.results
                    for topic in result.topics
                    for each in topic.partitions
                }
                assert sizes == {("a", 0): log.log.size_bytes, ("a", 1): 0, ("b", 0): 0}
                assert sizes["a", 0] > 0
                for result in answer.results:
                    if version >= 4:
                        assert 0 < result.usable_bytes <= result.total_bytes

    loopback.run(story)


def test_partitions_that_are_not_here_are_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("a", 2)
            request = DescribeLogDirsRequest(
                topics=[
                    DescribableLogDirTopic(topic="a", partitions=[1, 5]),
                    DescribableLogDirTopic(topic="elsewhere", partitions=[0]),
                ]
            )
            (result,) = (await directories(s, request)).results
            (topic,) = result.topics
            assert (topic.name, [p.partition_index for p in topic.partitions]) == ("a", [1])

    loopback.run(story)


def test_a_directory_that_is_offline_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("a")
            (directory,) = s.broker.replicas.directories.all
            directory._disk.failure = DirectoryOffline("a-0", "sync", OSError("gone"))
            (result,) = (await directories(s, DescribeLogDirsRequest(topics=None))).results
            assert result.error_code == Error.KAFKA_STORAGE_ERROR
            assert not result.topics
            directory._disk.failure = None

    loopback.run(story)
