"""S1–S11: what the shell does with records, on their way from a client to every replica."""

from tidelog.broker.produce.appends import Appends
from tidelog.broker.produce.open_produce import OpenPartition, OpenProduce
from tidelog.broker.replication.fetchers import Fetchers
from tidelog.broker.replication.hosted import Hosted
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.effects import Effect
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.sent_positions import SentFetch
from tidelog.host.client import FrameConnection
from tidelog.host.ports import CloseReason
from tidelog.sim.mutants.patch import Mutant, Patch
from tidelog.sim.mutants.replication import newest_position
from tidelog.storage.group_commit import PendingPass

DAY_MS = 86_400_000


_on_fetch_error = FollowerReplica.on_fetch_error


def _wait_for_metadata(follower: FollowerReplica, error: Error, now_ms: int) -> list[Effect]:
    """A fenced follower asks nobody any more until metadata names another leader epoch."""
    effects = _on_fetch_error(follower, error, now_ms)
    if error is Error.FENCED_LEADER_EPOCH:
        follower.delay_until_ms = now_ms + DAY_MS
    return effects


def _sync_nothing(pending: PendingPass) -> None:
    """The pass is over before anything of it is on the disk."""
    pending.release()


def _answer_before_append(appends: Appends, produce: OpenProduce) -> None:
    produce.close_list()
    appends._turn_end.add(appends._append_offered)


def _settle_newest(connection: FrameConnection, frame: memoryview) -> None:
    if not connection._pending:
        connection._end(CloseReason.UNEXPECTED_RESPONSE)
    else:
        connection._settle(connection._pending.pop(), frame)


_answered = OpenPartition.answered


def _appended_is_good_enough(partition: OpenPartition, error: Error) -> None:
    lost_office = error is Error.NOT_LEADER_OR_FOLLOWER and partition._role is not None
    _answered(partition, NO_ERROR if lost_office else error)


_follow = Fetchers.follow


def _stay_with_former_leader(fetchers: Fetchers, hosted: Hosted) -> None:
    if not fetchers.is_fetched(hosted.partition):
        _follow(fetchers, hosted)


def _node(name: str, title: str, patches: tuple[Patch, ...], *focus: str) -> Mutant:
    return Mutant(name, title, patches, focus=focus)


MUTANTS: tuple[Mutant, ...] = (
    _node("S1", "an answer is judged by the newest request, and a fenced follower waits for "
          "metadata",
          (Patch(SentFetch, "position", newest_position),
           Patch(FollowerReplica, "on_fetch_error", _wait_for_metadata)),
          "elect", "pause", "cut"),
    _node("S2", "group commit reports a sync that did not happen",
          (Patch(PendingPass, "run", _sync_nothing),),
          "power_loss", "pause"),
    _node("S3", "a produce is answered before it is appended",
          (Patch(Appends, "close_later", _answer_before_append),),
          "pause"),
    _node("S5", "an answer is given to the newest request, whichever it answers",
          (Patch(FrameConnection, "on_frame", _settle_newest),),
          "elect", "reset"),
    _node("S10", "a produce that was appended is acknowledged when the leadership ends",
          (Patch(OpenPartition, "answered", _appended_is_good_enough),),
          "isolate"),
    _node("S11", "a follower stays with its former leader",
          (Patch(Fetchers, "follow", _stay_with_former_leader),),
          "kill", "elect"),
)  # fmt: skip
