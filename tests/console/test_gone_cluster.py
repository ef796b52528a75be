"""A cluster of which no broker runs: said at once, and not asked again and again."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.hub import NO_BROKER
from tidelog.console.place import Place

WITHIN_SECONDS = 60


@pytest.fixture
def gone(
    tmp_path: Path, console_of: Callable[[Place], AbstractContextManager[str]]
) -> Iterator[str]:
    state = layout.create(tmp_path, "test", Shape(2))
    servers = "127.0.0.1:9"
    with console_of(Place("test", servers, nodes=LocalNodes(tmp_path, state))) as url:
        yield url


def test_the_overview_says_first_that_no_broker_runs(gone: str) -> None:
    with urllib.request.urlopen(f"{gone}/api/overview", timeout=WITHIN_SECONDS) as answer:
        health = json.load(answer)["health"]
    assert (health[0]["severity"], health[0]["text"]) == ("bad", NO_BROKER)
    assert [each["text"] for each in health[1:]] == ["broker 1 is down", "broker 2 is down"]


@pytest.mark.parametrize("path", ["topics", "topics/orders", "groups", "controller"])
def test_what_only_the_cluster_knows_is_refused_with_the_reason(gone: str, path: str) -> None:
    urllib.request.urlopen(f"{gone}/api/overview", timeout=WITHIN_SECONDS).close()
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(f"{gone}/api/{path}", timeout=WITHIN_SECONDS)
    assert refused.value.code == 503
    assert NO_BROKER in json.load(refused.value)["error"]
    refused.value.close()
