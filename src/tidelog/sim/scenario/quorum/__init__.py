"""A second stage for stories: the metadata quorum, controllers on it, brokers around it.

Production's processes run here, on virtual loops and disks. Messages arrive at once and in order
unless a story holds, drops or cuts them; time passes only when a story lets it, and node n always
draws an election timeout of 1 s + n · 100 ms.
"""

from tidelog.sim.scenario.quorum.commands import TABLE
from tidelog.sim.scenario.quorum.stage import QuorumStage

OPENING = "quorum"
"""A script that begins with this command is played on this stage."""

__all__ = ["OPENING", "TABLE", "QuorumStage"]
