"""Every command of a scenario file, by name. One function each; see `registry`."""

from tidelog.sim.scenario.command_table import Command
from tidelog.sim.scenario.commands import (
    clients,
    control,
    pictures,
    processes,
    replication,
    scene,
    views,
    wires,
)
from tidelog.sim.scenario.commands.registry import COMMANDS, perform

__all__ = [
    "COMMANDS",
    "Command",
    "clients",
    "control",
    "perform",
    "pictures",
    "processes",
    "replication",
    "scene",
    "views",
    "wires",
]
