"""Stories as data: scenario files, the stage they are played on, and their runner.

Real replicas, the real controller, virtual time and no chance: a file says what happens and
what exactly comes out. The same files are tests, and what the lab shows.
"""

from tidelog.sim.scenario.runner import Player, Step, difference, rewritten, run_script
from tidelog.sim.scenario.script import Directive, Script, ScriptError, parse_script

__all__ = [
    "Directive",
    "Player",
    "Script",
    "ScriptError",
    "Step",
    "difference",
    "parse_script",
    "rewritten",
    "run_script",
]
