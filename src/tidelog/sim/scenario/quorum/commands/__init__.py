"""Every command of the quorum stage, by name. One function each."""

from tidelog.sim.scenario.quorum.commands import machines, requests, scene, views, wires
from tidelog.sim.scenario.quorum.commands.registry import TABLE

__all__ = ["TABLE", "machines", "requests", "scene", "views", "wires"]
