"""One node: a broker, a controller, or both, made from a configuration."""

from tidelog.node.disks import CannotStart
from tidelog.node.node import Node

__all__ = ["CannotStart", "Node"]
