"""The pytest plugin: the fixtures `tidelog` and `tidelog_cluster`, and the marker `tidelog`.

pytest imports this in every run of everybody who has installed Tidelog, so nothing of ours is
imported here before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.failure_report import Watched
    from tidelog.testing.shared import SharedBroker

MARKER = "tidelog"
HELP = (
    "tidelog(brokers=3, config={}, host='thread', check=True, …): the cluster of the fixture "
    "tidelog_cluster, with the arguments of tidelog.testing.Cluster; check=False leaves the "
    "invariants unchecked after the test"
)
BROKERS = 3
WATCHED: pytest.StashKey[Watched] = pytest.StashKey()
"""The cluster of a test, for the report if it fails."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", HELP)


@pytest.fixture(scope="session")
def _tidelog_broker() -> Iterator[Cluster]:
    """One for each process of a run: workers of xdist have their own."""
    from tidelog.testing.cluster import THREAD, Cluster  # noqa: PLC0415 - see above

    with Cluster(brokers=1, host=THREAD) as cluster:
        yield cluster


@pytest.fixture
def tidelog(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _tidelog_broker: Cluster,
) -> Iterator[SharedBroker]:
    """One broker for the whole run; topics that are made through it have names of their own, and
    go with the test."""
    from tidelog.testing.shared import SharedBroker  # noqa: PLC0415

    _, check = _arguments(request)
    shared = SharedBroker(_tidelog_broker)
    with _watched(request, tmp_path_factory, _tidelog_broker) as watched:
        try:
            yield shared
            if check:
                watched.check()
        finally:
            shared.clean_up()


@pytest.fixture
def tidelog_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster for this test alone, as `@pytest.mark.tidelog(brokers=3, …)` says."""
    from tidelog.testing.cluster import THREAD, Cluster  # noqa: PLC0415

    arguments, check = _arguments(request)
    try:
        cluster = Cluster(**{"brokers": BROKERS, "host": THREAD, **arguments})
    except (TypeError, ValueError) as reason:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} of {request.node.name}: {reason}") from None
    with cluster, _watched(request, tmp_path_factory, cluster) as watched:
        yield cluster
        if check:
            watched.check()


def _arguments(request: pytest.FixtureRequest) -> tuple[dict[str, Any], bool]:
    """What the marks of a test say; the nearest one counts most."""
    arguments: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        if mark.args:
            example = f"@pytest.mark.{MARKER}(brokers=3)"
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes names, as in {example}")
        arguments |= mark.kwargs
    return arguments, bool(arguments.pop("check", True))


def _watched(
    request: pytest.FixtureRequest, paths: pytest.TempPathFactory, cluster: Cluster
) -> Any:
    from tidelog.testing.failure_report import watching  # noqa: PLC0415

    return watching(request.node, WATCHED, cluster, paths)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """While its cluster still runs."""
    report = yield
    watched = item.stash.get(WATCHED, None)
    if watched is not None and report.when == "call" and report.failed:
        report.sections.append(("tidelog", watched.tell()))
        watched.show_console(item.config)
    return report
