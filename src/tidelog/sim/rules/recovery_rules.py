"""The rule about what a restart finds on disk (replication.md §12, rule 19); byte depth only."""

from tidelog.sim.recovery_facts import Recovery
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import label

RECOVERY = "R19 recovery"


class RecoveryKeepsWhatWasDurable(Rule):
    """After a crash a log is a batch-aligned prefix of what was written to it, with everything
    that was durable; its checksums, indexes and epochs are right, and no torn byte is served."""

    name = RECOVERY

    def log_recovered(self, recovery: Recovery) -> None:
        problem = self._problem(recovery)
        if problem is not None:
            self.broken(
                f"{label(recovery.partition)}: node {recovery.node} after {recovery.cause}: "
                + problem
            )

    def _problem(self, recovery: Recovery) -> str | None:
        written, found = recovery.written, recovery.found
        if recovery.faults:
            return "; ".join(recovery.faults)
        if found.log_start_offset not in written.starts:
            return f"starts at {found.log_start_offset}, not at one of {written.starts}"
        if found.log_end_offset < written.owed_end:
            return f"ends at {found.log_end_offset}, {written.owed_end} was owed"
        if not is_prefix(recovery):
            return f"the records up to {found.log_end_offset} are not those that were written"
        return None


def is_prefix(recovery: Recovery) -> bool:
    """Whole batches as they were written, from the first one that is kept on."""
    found, written = recovery.found.batches, recovery.written.batches
    if not found:
        return recovery.found.log_end_offset == recovery.found.log_start_offset
    first = found[0].base_offset
    skipped = sum(batch.base_offset < first for batch in written)
    return written[skipped : skipped + len(found)] == found
