"""The parts of a comparison that need no cluster: what tools print, requests, cases, settings."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from tidelog.bench.compare import kafka_jars
from tidelog.bench.compare.kafka import Place, properties_of
from tidelog.bench.compare.paced_client import percentiles_ms
from tidelog.bench.compare.page_cache import evict
from tidelog.bench.compare.produce_cases import CASES
from tidelog.bench.compare.rdkafka_client import digest, values
from tidelog.bench.compare.runner import chosen, limit_keys
from tidelog.bench.compare.sections import all_sections
from tidelog.bench.compare.small_client import error_position, produce_frame
from tidelog.bench.compare.system import Narrowable, Scale, SystemFailed, SystemMissing
from tidelog.bench.compare.tools import KafkaTools, average_ms, consumed_per_s, produced_per_s
from tidelog.bench.compare.warm_clusters import WarmClusters
from tidelog.bench.compare.warming import is_steady
from tidelog.wire.protocol import decode_request, encode_response
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records import decode

PRODUCED = """\
12345 records sent, 2469.0 records/sec (2.41 MB/sec), 5.1 ms avg latency, 250.0 ms max latency.
50000 records sent, 2423.2 records/sec (2.37 MB/sec), 4211.06 ms avg latency, 7012.00 ms max \
latency, 4300 ms 50th, 6500 ms 95th, 6800 ms 99th, 7000 ms 99.9th.
"""
CONSUMED = (
    "2026-01-01 10:00:00:000, 2026-01-01 10:00:05:000, 48.8281, 9.7656, 50000, 10000.0000, "
    "3500, 1500, 32.5521, 33333.3333\n"
)
END_TO_END = "0\t12.1\nAvg latency: 13.6253 ms\n\nPercentiles: 50th = 11, 99th = 40, 99.9th = 90\n"


def test_the_producer_tool_is_believed_in_its_last_line_only():
    assert produced_per_s(PRODUCED, 50_000) == 2423.2


def test_a_producer_that_sent_fewer_records_has_failed():
    with pytest.raises(SystemFailed, match="did not send 60000"):
        produced_per_s(PRODUCED, 60_000)
    with pytest.raises(SystemFailed, match="it said nothing"):
        produced_per_s("\n", 1)


def test_the_consumer_tool_counts_without_the_time_its_group_took():
    assert consumed_per_s(CONSUMED, 50_000) == 33333.3333


def test_a_consumer_that_read_fewer_records_has_failed():
    with pytest.raises(SystemFailed, match="did not read 50001"):
        consumed_per_s(CONSUMED, 50_001)
    with pytest.raises(SystemFailed, match="Exiting before consuming"):
        consumed_per_s("WARNING: Exiting before consuming the expected number", 1)


def test_the_latency_tool_tells_its_mean():
    assert average_ms(END_TO_END) == 13.6253
    with pytest.raises(SystemFailed, match="Timeout"):
        average_ms("0\t12.1\nTimeout\n")


def test_percentiles_are_values_that_were_measured():
    found = percentiles_ms([number * 1_000_000 for number in range(1, 1001)])
    assert found == {"p50": 500.0, "p99": 990.0, "p999": 999.0}
    assert percentiles_ms([7_000_000]) == {"p50": 7.0, "p99": 7.0, "p999": 7.0}


def test_written_values_differ_and_a_changed_one_is_noticed():
    written = [*values(1000, 100)]
    assert {len(value) for value in written} == {100}
    assert len({digest(value) for value in written}) == 1000
    assert digest(written[3]) != digest(written[3][:-1] + b"?")


@pytest.mark.parametrize("version", [9, 11])
def test_a_small_request_holds_one_record_and_its_error_code_is_found(version):
    job = {"topic": "small-ä", "acks": -1, "record_bytes": 100}
    frame = produce_frame(job, 5, version)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    header, request = decode_request(frame[4:])
    assert isinstance(request, ProduceRequest)
    assert (header.api_version, request.acks) == (version, -1)
    (sent,) = request.topic_data[0].partition_data
    assert [len(record.value) for record in decode(sent.records)] == [100]

    partition = PartitionProduceResponse(index=5, error_code=6)
    topic = TopicProduceResponse(name="small-ä", partition_responses=[partition])
    parts = encode_response(5, ProduceResponse(responses=[topic]), version)
    answer = b"".join(bytes(part) for part in parts)
    assert struct.unpack_from(">h", answer, error_position("small-ä")) == (6,)


def test_cases_differ_from_each_other_and_cover_what_was_asked_for():
    keys = [case.key for case in CASES]
    assert len({*keys}) == len(keys)
    assert {case.acks for case in CASES} == {"all", "1"}
    assert {case.record_bytes for case in CASES} == {1024, 100}
    assert {case.partitions for case in CASES} == {1, 6, 100}
    assert {case.codec for case in CASES} == {"none", "lz4"}
    assert {case.durability for case in CASES} == {"page-cache", "fsync"}


def test_rows_of_all_sections_have_keys_of_their_own():
    sections = all_sections(Scale.TINY, [], KafkaTools("nowhere"), WarmClusters(Scale.TINY))
    keys = [row.key for section in sections for row in section.rows]
    assert len({*keys}) == len(keys)


def test_without_kafkas_tools_no_row_needs_java():
    sections = all_sections(Scale.TINY, [], None, WarmClusters(Scale.TINY))
    keys = [row.key for section in sections for row in section.rows]
    assert keys
    assert not [key for key in keys if "java" in key]


def test_a_section_that_can_be_narrowed_is_narrowed_to_one_of_its_rows():
    sections = all_sections(Scale.TINY, [], KafkaTools("nowhere"), WarmClusters(Scale.TINY))
    for section in (each for each in sections if isinstance(each, Narrowable)):
        wanted = section.rows[-1].key
        (narrowed,) = chosen([section], f"^{wanted}$")
        assert [row.key for row in narrowed.rows] == [wanted]


def test_every_limit_that_a_row_is_set_against_is_measured():
    sections = all_sections(Scale.TINY, [], KafkaTools("nowhere"), WarmClusters(Scale.TINY))
    keys = {row.key for section in sections for row in section.rows}
    assert limit_keys(sections)
    assert limit_keys(sections) <= keys


def test_kafka_is_told_its_addresses_and_hardly_anything_else(tmp_path):
    places = [Place(each, 9000 + each, 9100 + each, tmp_path / str(each)) for each in (1, 2, 3)]
    found = properties_of(places[1], places, {"log.flush.interval.messages": "1"})
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9102"
    assert found["controller.quorum.voters"].startswith("1@127.0.0.1:9101,2@")
    assert found["log.flush.interval.messages"] == "1"
    assert found["offsets.topic.replication.factor"] == "3"
    alone = properties_of(places[0], places[:1], {})
    assert alone["offsets.topic.replication.factor"] == "1"
    assert alone["min.insync.replicas"] == "1"


def test_what_maven_shall_fetch_is_named_with_its_version():
    text = kafka_jars.pom("4.1.9")
    assert text.count("<version>4.1.9</version>") == 2
    assert "<artifactId>kafka_2.13</artifactId>" in text
    assert "<artifactId>kafka-tools</artifactId>" in text


def test_a_machine_without_maven_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemMissing, match="install a JDK, 17 or later, and Maven"):
        kafka_jars.class_path(tmp_path)


def test_maven_that_cannot_fetch_is_quoted_and_nothing_is_left_behind(tmp_path, monkeypatch):
    for name, text in (("java", "exit 0"), ("mvn", "echo '[ERROR] no such host'; exit 1")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n", "ascii")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    cache = tmp_path / "cache"
    with pytest.raises(SystemMissing, match=r"cannot fetch Kafka 4\.1\.9: \[ERROR\] no such host"):
        kafka_jars.class_path(cache, "4.1.9")
    assert [*(cache / "kafka-server").iterdir()] == []


def test_only_segments_are_taken_out_of_the_page_cache(tmp_path):
    directory = Path(tmp_path) / "topic-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(bytes(5000))
    (directory / "00000000000000000000.index").write_bytes(bytes(70))
    assert evict([str(tmp_path)]) == 5000


def test_a_directory_that_its_broker_deletes_meanwhile_is_passed_over(tmp_path, monkeypatch):
    for name in ("gone-0", "kept-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").write_bytes(bytes(10))
    scandir = os.scandir

    def deletes_first(path):
        if str(path).endswith("gone-0"):
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deletes_first)
    assert evict([str(tmp_path)]) == 10


def test_brokers_are_warm_when_requests_do_not_get_cheaper():
    assert not is_steady([])
    assert not is_steady([12.0, 6.0])
    assert not is_steady([12.0, 6.0, 4.0, 2.8])
    assert not is_steady([4.0, 2.0, 4.0, 1.7])
    assert is_steady([4.0, 2.0, 1.9, 1.95])
    assert is_steady([0.35, 0.34, 0.36])
