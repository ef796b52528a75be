"""Stories as data: scenario files, the stage they are played on, and their runner.

Production's nodes, virtual time and no chance: a file says what happens and what exactly comes
out. The same files are tests, and what the lab shows.
"""

from tidelog.sim.scenario.runner import Player, Step, difference, rewritten, run_script
from tidelog.sim.scenario.script import ArgumentError, Directive, Script, ScriptError, parse_script
from tidelog.sim.scenario.view import PartitionPicture, ReplicaPicture, look

__all__ = [
    "ArgumentError",
    "Directive",
    "PartitionPicture",
    "Player",
    "ReplicaPicture",
    "Script",
    "ScriptError",
    "Step",
    "difference",
    "look",
    "parse_script",
    "rewritten",
    "run_script",
]
