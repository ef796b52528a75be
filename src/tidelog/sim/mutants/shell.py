"""S1, S2: rules of the shell around the state machines, which only whole nodes have."""

from tidelog.core.errors import Error
from tidelog.core.replication.effects import Effect
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.sent_positions import SentFetch
from tidelog.sim.mutants.patch import Mutant, Patch
from tidelog.sim.mutants.replication import newest_position
from tidelog.sim.plan import NODE_DEPTH
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


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "S1",
        "an answer is judged by the newest request, and a fenced follower waits for metadata",
        (
            Patch(SentFetch, "position", newest_position),
            Patch(FollowerReplica, "on_fetch_error", _wait_for_metadata),
        ),
        depth=NODE_DEPTH,
        focus=("elect", "pause", "cut"),
    ),
    Mutant(
        "S2",
        "group commit reports a sync that did not happen",
        (Patch(PendingPass, "run", _sync_nothing),),
        depth=NODE_DEPTH,
        focus=("power_loss", "pause"),
    ),
)
