"""The pytest plugin: the fixtures `tidelog` and `tidelog_cluster`, and the marker `tidelog`.

pytest imports this in every run of everybody who has installed Tidelog, so nothing of ours is
imported here before a test asks for a fixture.
"""

from __future__ import annotations

import inspect
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
    "invariants unchecked after the test; host='sim', seeds=20 runs it on virtual time, once for "
    "each of so many seeds, and limit='10min' is how much of that an async test may take"
)
SEEDS_HELP = "so many seeds for each test that has seeds= in its mark tidelog, instead of its own"
BROKERS = 3
SIM, RUN_LIMIT = "sim", "10min"
WATCHED: pytest.StashKey[Watched] = pytest.StashKey()
"""The cluster of a test, for the report if it fails."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog")
    group.addoption("--tidelog-seeds", type=int, metavar="N", default=None, help=SEEDS_HELP)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", HELP)
    config.pluginmanager.register(InItsWorld(), "tidelog-in-its-world")  # last, so it is first


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A story over many seeds is one test for each of them. A mark that makes no sense is refused
    by the fixture."""
    if "_tidelog_seed" not in metafunc.fixturenames:
        return
    arguments, given = _said(metafunc.definition), metafunc.config.getoption("--tidelog-seeds")
    if arguments.get("host") != SIM or "seeds" not in arguments:
        return
    first, count = arguments.get("seed") or 0, given or arguments["seeds"]
    seeds = range(first, first + max(0, count))
    names = [f"seed{seed}" for seed in seeds]
    if names:
        metafunc.parametrize("_tidelog_seed", seeds, ids=names, indirect=True)


@pytest.fixture
def _tidelog_seed(request: pytest.FixtureRequest) -> int | None:
    """The one of many that this test has."""
    seed: int | None = getattr(request, "param", None)
    return seed


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
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _tidelog_seed: int | None,
) -> Iterator[Cluster]:
    """A cluster for this test alone, as `@pytest.mark.tidelog(brokers=3, …)` says."""
    from tidelog.testing.cluster import THREAD, Cluster  # noqa: PLC0415

    arguments, check = _arguments(request)
    seeds = arguments.pop("seeds", None)
    if _tidelog_seed is not None:
        arguments["seed"] = _tidelog_seed
    elif seeds is not None:
        wanted = f"seeds={seeds} needs host={SIM!r}, and is 1 or more"
        raise pytest.UsageError(f"@pytest.mark.{MARKER} of {request.node.name}: {wanted}")
    try:
        cluster = Cluster(**{"brokers": BROKERS, "host": THREAD, **arguments})
    except (TypeError, ValueError) as reason:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} of {request.node.name}: {reason}") from None
    with cluster, _watched(request, tmp_path_factory, cluster) as watched:
        yield cluster
        if check:
            watched.check()


def _arguments(request: pytest.FixtureRequest) -> tuple[dict[str, Any], bool]:
    """What the marks of a test say of its cluster, and whether it is checked."""
    arguments = _said(request.node)
    arguments.pop("limit", None)  # of an async test
    return arguments, bool(arguments.pop("check", True))


def _said(item: pytest.Item) -> dict[str, Any]:
    """By the marks of a test; the nearest one counts most."""
    arguments: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(MARKER))):
        if mark.args:
            example = f"@pytest.mark.{MARKER}(brokers=3)"
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes names, as in {example}")
        arguments |= mark.kwargs
    return arguments


def _watched(
    request: pytest.FixtureRequest, paths: pytest.TempPathFactory, cluster: Cluster
) -> Any:
    from tidelog.testing.failure_report import watching  # noqa: PLC0415

    return watching(request.node, WATCHED, cluster, paths)


class InItsWorld:
    """An async test of a simulated cluster runs in its world, where what it awaits takes virtual
    time. That needs no plugin for async tests, and comes before those that there are."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        __tracebackhide__ = True
        cluster: Any = pyfuncitem.funcargs.get("tidelog_cluster")
        test = pyfuncitem.obj
        if not inspect.iscoroutinefunction(test):  # pytest-asyncio puts a function around it
            test = getattr(test, "__wrapped__", None)
        if cluster is None or cluster.host != SIM or not inspect.iscoroutinefunction(test):
            return None
        given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        cluster.run(test(**given), _said(pyfuncitem).get("limit", RUN_LIMIT))
        return True


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
