"""Clusters for unittest: one for a class of tests."""

import unittest
from typing import Any, ClassVar

from tidelog.testing.cluster import THREAD, Cluster


class ClusterTestCase(unittest.TestCase):
    """`self.cluster` is one cluster for all tests of the class, started before the first.

        class OrdersTest(ClusterTestCase):
            brokers = 3
            config = {"min.insync.replicas": 2}

    Its invariants are checked after every test, unless `checked` is False. A test that kills nodes
    starts them again, or has a class of its own.
    """

    brokers: ClassVar[int] = 1
    host: ClassVar[str] = THREAD
    config: ClassVar[dict[str, object]] = {}
    arguments: ClassVar[dict[str, Any]] = {}
    """Others of `Cluster`."""
    checked: ClassVar[bool] = True
    cluster: ClassVar[Cluster]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        made = Cluster(brokers=cls.brokers, host=cls.host, config=cls.config, **cls.arguments)
        cls.cluster = cls.enterClassContext(made)

    def setUp(self) -> None:
        super().setUp()
        if self.checked:
            self.addCleanup(self.cluster.check)
