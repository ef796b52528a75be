"""One member of the metadata quorum: its log on disk, its messages on the wire, its listeners.

`core.quorum` decides; this package performs. `MetadataListener`s get what is committed.
"""

from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.listener import MetadataListener
from tidelog.quorum.member import QuorumMember
from tidelog.quorum.membership import QuorumMembership

__all__ = ["KafkaEntryCodec", "MetadataListener", "QuorumMember", "QuorumMembership"]
