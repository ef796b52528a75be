"""What every rule is."""

from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.view import Report, WorldView, label


class Rule:
    """One safety rule. Subclasses define the hooks they need; the judge finds them by name.

    The first line of a subclass's docstring is the rule in plain words.
    """

    name = ""

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        self.world = world
        self.chronicle = chronicle
        self._report = report

    def broken(self, text: str) -> None:
        self._report(self.name, text)

    def broken_if_durable(self, partition: PartitionId, text: str) -> None:
        """For rules that hold in clean history only. Asked last: the question is not cheap."""
        if self.world.expected_durable(partition):
            self._report(self.name, f"{label(partition)}: {text}")
