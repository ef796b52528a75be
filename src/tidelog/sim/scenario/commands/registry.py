"""How a command gets its name, its usage and its errors."""

from tidelog.sim.scenario.command_table import Command, CommandTable
from tidelog.sim.scenario.stage import Stage

TABLE: CommandTable[Stage] = CommandTable()
COMMANDS: dict[str, Command[Stage]] = TABLE.commands
command = TABLE.command
perform = TABLE.perform
