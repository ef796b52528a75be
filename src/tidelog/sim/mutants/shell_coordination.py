"""S22, S23, S26: what the shell does for groups and transactions."""

from tidelog.coordinators.shard import Shard
from tidelog.coordinators.shards import Seat, Shards
from tidelog.core.coordination import Marker, Outcome
from tidelog.sim.mutants.patch import Mutant, Patch


async def _take_office_unread(seat: Seat) -> None:
    seat.shard.finish_loading()
    seat._serve_early()
    seat.schedule()


_settle = Shard._settle


def _release_before_commit(shard: Shard, outcome: Outcome) -> None:
    _settle(shard, outcome)
    while shard._held and not shard.resigned:
        shard._release(shard._held.popleft().outcome)


def _tell_nobody(_shards: Shards, _index: int, _marker: Marker) -> None:
    """The coordinator of groups does not hear that a transaction has ended."""


MUTANTS: tuple[Mutant, ...] = (
    Mutant("S22", "a coordinator takes office before it has read its log",
           (Patch(Seat, "_load", _take_office_unread),),
           focus=("kill", "elect", "groups")),
    Mutant("S23", "a coordinator answers before its records are committed",
           (Patch(Shard, "_settle", _release_before_commit),),
           focus=("isolate", "kill", "groups", "transactional")),
    Mutant("S26", "the coordinator of groups does not hear of the end of a transaction",
           (Patch(Shards, "marker_appended", _tell_nobody),),
           focus=("elect", "kill", "processors")),
)  # fmt: skip
