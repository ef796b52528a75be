"""Control records of the metadata log: the quorum's own records (KIP-595, KIP-630, KIP-853)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tidelog.core.quorum.messages import LeaderChange, VoterKey, VotersRecord
from tidelog.quorum.membership import CONTROLLER_LISTENER, Address
from tidelog.wire.protocol import Message, ProtocolError, decode, encode
from tidelog.wire.protocol.schemas import (
    kraft_version_record,
    leader_change_message,
    snapshot_footer_record,
    snapshot_header_record,
    voters_record,
)
from tidelog.wire.records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    InvalidRecord,
)

NOBODY: Mapping[int, Address] = MappingProxyType({})
_VERSION = 0
_DYNAMIC_VOTERS = 1
"""The kraft.version from which on the voters are in the log."""


class KRaftVersion(NamedTuple):
    """Which rules of the quorum are in force; 1 from the first recorded voter set on."""

    level: int


class SnapshotHeader(NamedTuple):
    """First in a snapshot: how old what it holds is."""

    last_contained_log_timestamp_ms: int


class SnapshotFooter(NamedTuple):
    """Last in a snapshot: there is nothing missing."""


ControlRecord = LeaderChange | VotersRecord | KRaftVersion | SnapshotHeader | SnapshotFooter


def encode_control_record(
    record: object, addresses: Mapping[int, Address] = NOBODY
) -> tuple[int, bytes]:
    """The type and the value of a control record. The record of the voters also says where their
    controllers listen, which Kafka must find there."""
    kind, message = _to_wire(record, addresses)
    return kind, encode(message, _VERSION)


def _to_wire(record: object, addresses: Mapping[int, Address]) -> tuple[int, Message]:
    if isinstance(record, LeaderChange):
        return LEADER_CHANGE, _leader_change(record)
    if isinstance(record, VotersRecord):
        return KRAFT_VOTERS, _voters(record, addresses)
    if isinstance(record, KRaftVersion):
        return KRAFT_VERSION, kraft_version_record.KRaftVersionRecord(kraft_version=record.level)
    if isinstance(record, SnapshotHeader):
        header = snapshot_header_record.SnapshotHeaderRecord(
            last_contained_log_timestamp=record.last_contained_log_timestamp_ms
        )
        return SNAPSHOT_HEADER, header
    assert isinstance(record, SnapshotFooter), f"{record!r} is not a control record"
    return SNAPSHOT_FOOTER, snapshot_footer_record.SnapshotFooterRecord()


def decode_control_record(kind: int, value: bytes) -> ControlRecord:
    """InvalidRecord if it is damaged or nothing that belongs into a metadata log."""
    try:
        return _from_wire(kind, value)
    except ProtocolError as reason:
        raise InvalidRecord(f"control record of type {kind}: {reason}") from reason


def _from_wire(kind: int, value: bytes) -> ControlRecord:
    if kind == LEADER_CHANGE:
        return _read_leader_change(value)
    if kind == KRAFT_VOTERS:
        voters = decode(voters_record.VotersRecord, _VERSION, value).voters
        return VotersRecord(
            tuple(VoterKey(each.voter_id, each.voter_directory_id) for each in voters)
        )
    if kind == KRAFT_VERSION:
        level = decode(kraft_version_record.KRaftVersionRecord, _VERSION, value).kraft_version
        return KRaftVersion(level)
    if kind == SNAPSHOT_HEADER:
        header = decode(snapshot_header_record.SnapshotHeaderRecord, _VERSION, value)
        return SnapshotHeader(header.last_contained_log_timestamp)
    if kind == SNAPSHOT_FOOTER:
        decode(snapshot_footer_record.SnapshotFooterRecord, _VERSION, value)
        return SnapshotFooter()
    raise InvalidRecord(f"control record of type {kind} in the metadata log")


def _leader_change(record: LeaderChange) -> Message:
    """Version 0, without directory ids: the core names voters by their node id."""
    voter = leader_change_message.Voter
    return leader_change_message.LeaderChangeMessage(
        leader_id=record.leader_id,
        voters=[voter(voter_id=each) for each in record.voters],
        granting_voters=[voter(voter_id=each) for each in record.granting_voters],
    )


def _read_leader_change(value: bytes) -> LeaderChange:
    """The first field of every version says which version it is."""
    version = int.from_bytes(value[:2], "big", signed=True)
    message = decode(leader_change_message.LeaderChangeMessage, version, value)
    return LeaderChange(
        message.leader_id,
        tuple(each.voter_id for each in message.voters),
        tuple(each.voter_id for each in message.granting_voters),
    )


def _voters(record: VotersRecord, addresses: Mapping[int, Address]) -> Message:
    feature = voters_record.KRaftVersionFeature(
        min_supported_version=0, max_supported_version=_DYNAMIC_VOTERS
    )
    return voters_record.VotersRecord(
        voters=[
            voters_record.Voter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[
                    voters_record.Endpoint(name=CONTROLLER_LISTENER, host=host, port=port)
                    for host, port in [addresses[voter.node_id]]
                ]
                if voter.node_id in addresses
                else (),
                kraft_version_feature=feature,
            )
            for voter in record.voters
        ]
    )


def with_kraft_version(control: tuple[object, ...]) -> tuple[object, ...]:
    """What a snapshot says of the quorum: a recorded voter set needs the version that has one."""
    if any(isinstance(record, VotersRecord) for record in control):
        return (KRaftVersion(_DYNAMIC_VOTERS), *control)
    return control
