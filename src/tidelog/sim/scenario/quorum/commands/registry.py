"""Where the commands of the quorum stage are registered."""

from tidelog.sim.scenario.command_table import CommandTable
from tidelog.sim.scenario.quorum.stage import QuorumStage

TABLE: CommandTable[QuorumStage] = CommandTable()
command = TABLE.command
