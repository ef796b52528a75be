"""One node: a broker, a controller, or both, made from a configuration."""

from tidelog.node.node import CannotStart, Node
from tidelog.node.process import run

__all__ = ["CannotStart", "Node", "run"]
