"""The safety rules, one small class each; `judge` runs them.

R01 to R22 are the rules of replication.md §12, K01 to K20 those of kraft.md §12, R23 that of
ADR 0030, K21 that of ADR 0017; X and G rules are about transactions and groups. Where a rule
cannot be judged from the happenings of a run, ELSEWHERE says who judges it.
"""

from tidelog.sim.rules.acknowledgement_rules import AcknowledgedIsCommitted, AcknowledgedIsKept
from tidelog.sim.rules.consumer_rules import ReadsAreCommitted, ReadsStay
from tidelog.sim.rules.controller_rules import (
    AnswersAreCommitted,
    CleanElections,
    ControllerIsReplay,
    EpochBumps,
    HintsFenceOnlyTheDead,
    OneIncarnation,
    OnlyActiveBrokersLead,
    ProducerIdsDisjoint,
    SnapshotIsReplay,
    TopicsAreWhole,
)
from tidelog.sim.rules.group_rules import (
    AbortedOffsetsDoNotCount,
    CommitsAreKept,
    CutConnectionsEvictOnlyTheSilent,
    NothingSkipped,
    OldGenerationsCommitNothing,
    OneOwner,
)
from tidelog.sim.rules.isr_rules import (
    CommittedAgreement,
    IsrMembersEligible,
    OneIsrChangeInFlight,
    OnlyAssignedReplicasCount,
    ProgressIsReal,
    ProposalsAreCompared,
)
from tidelog.sim.rules.leadership_rules import (
    AnswersFitTheirRequest,
    EpochsRise,
    LeaderCompleteness,
    OldEpochsRefused,
    OneWriterPerEpoch,
)
from tidelog.sim.rules.log_rules import LogMatching, LogOrder, NoTruncationBelowHighWatermark
from tidelog.sim.rules.producer_rules import OnceAndInOrder
from tidelog.sim.rules.quorum_rules import (
    DeposedLeaderStops,
    ElectionSafety,
    EpochsAreEarned,
    MetadataLogMatching,
    OneVoterAtATime,
    OnlyDurableIsAcknowledged,
    OwnEpochCommitsFirst,
    PromisesAreStored,
    QuorumHighWatermarkNeverFalls,
    QuorumLeaderCompleteness,
    StateMachineSafety,
)
from tidelog.sim.rules.recovery_rules import RecoveryKeepsWhatWasDurable
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.transaction_rules import (
    AllOrNothing,
    CommittedReadsOnly,
    DecidedOnce,
    ExactlyOnce,
)
from tidelog.sim.rules.watermark_rules import (
    CommittedOnAllInSync,
    HighWatermarkNeverFalls,
    LastStableOffsetNeverFalls,
    OffsetsInOrder,
    PendingIsrCounts,
)

ALL_RULES: tuple[type[Rule], ...] = (
    LogMatching,
    LogOrder,
    OneWriterPerEpoch,
    LeaderCompleteness,
    CommittedAgreement,
    AcknowledgedIsKept,
    OffsetsInOrder,
    HighWatermarkNeverFalls,
    ReadsStay,
    CommittedOnAllInSync,
    ProgressIsReal,
    NoTruncationBelowHighWatermark,
    PendingIsrCounts,
    AcknowledgedIsCommitted,
    IsrMembersEligible,
    EpochsRise,
    ProposalsAreCompared,
    OldEpochsRefused,
    OnceAndInOrder,
    LastStableOffsetNeverFalls,
    OnlyAssignedReplicasCount,
    RecoveryKeepsWhatWasDurable,
    OneIsrChangeInFlight,
    ReadsAreCommitted,
    AnswersFitTheirRequest,
    ElectionSafety,
    PromisesAreStored,
    MetadataLogMatching,
    QuorumLeaderCompleteness,
    StateMachineSafety,
    QuorumHighWatermarkNeverFalls,
    OwnEpochCommitsFirst,
    OnlyDurableIsAcknowledged,
    EpochsAreEarned,
    DeposedLeaderStops,
    ControllerIsReplay,
    AnswersAreCommitted,
    OneIncarnation,
    OnlyActiveBrokersLead,
    EpochBumps,
    CleanElections,
    SnapshotIsReplay,
    TopicsAreWhole,
    ProducerIdsDisjoint,
    OneVoterAtATime,
    HintsFenceOnlyTheDead,
    CommittedReadsOnly,
    AllOrNothing,
    DecidedOnce,
    ExactlyOnce,
    AbortedOffsetsDoNotCount,
    OneOwner,
    CommitsAreKept,
    OldGenerationsCommitNothing,
    NothingSkipped,
    CutConnectionsEvictOnlyTheSilent,
)

ELSEWHERE: dict[str, str] = {
    "R20 topic ids": "A partition is named by its topic's id; at byte depth, where files are named"
    " by the topic, a namesake is set aside. R01 finds records that no leader of it wrote.",
    "K18 metadata transactions": "Metadata is written in atomic batches only; there are no"
    " metadata transactions that could be seen by halves.",
}


def explain(rule_name: str) -> str:
    """The rule in plain words, by its whole name or its number ("R04")."""
    for rule in ALL_RULES:
        if rule_name in (rule.name, rule.name.split()[0]):
            assert rule.__doc__ is not None, f"{rule.name} is not explained"
            return " ".join(rule.__doc__.split())
    for name, text in ELSEWHERE.items():
        if rule_name in (name, name.split()[0]):
            return text
    raise KeyError(f"no rule {rule_name!r}; known are {[rule.name for rule in ALL_RULES]}")


__all__ = ["ALL_RULES", "ELSEWHERE", "Rule", "explain"]
