"""Clusters that are warmed once and measured in every round.

Warming a Java machine takes minutes, rounds take seconds, and whoever starts anew for each round
measures the warming. So a cluster stays up until the end of the run, and stands still while others
are measured: SIGSTOP takes the processor from it and leaves what it has compiled.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tidelog.bench.compare.system import Running, Scale, System
from tidelog.bench.compare.warming import warm_up

CALM_S: Mapping[Scale, float] = {Scale.TINY: 0.2, Scale.QUICK: 3.0, Scale.FULL: 5.0}
"""How long everything has to be in sync after a pause: every session has run out meanwhile."""

Key = tuple[str, frozenset[tuple[str, str]]]


class WarmClusters:
    """One cluster for each system and each of its settings."""

    __slots__ = ("_clusters", "_directory", "_scale")

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._clusters: dict[Key, Running] = {}
        self._directory: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._clusters:
            self._clusters.popitem()[1].close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def directory(self) -> Path:
        """For files that clusters need as long as they run; gone after them."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-files-"))
        return self._directory

    @contextmanager
    def running(
        self,
        system: System,
        settings: Mapping[str, str] | None = None,
        client_settings: Mapping[str, str] | None = None,
    ) -> Iterator[Running]:
        """A warm cluster of three nodes that runs within the block only. Topics must have names
        of their own: those of earlier rounds may still be there."""
        key = (system.name, frozenset((settings or {}).items()))
        cluster = self._clusters.pop(key, None)
        if cluster is None:
            cluster = system.start(3, settings, client_settings)
            awake = self._warmed
        else:
            awake = self._resumed
        try:
            awake(cluster)
            yield cluster
            cluster.pause()
        except BaseException:  # whatever happened to it shall not spoil the next round
            cluster.close()
            raise
        self._clusters[key] = cluster

    def _warmed(self, cluster: Running) -> None:
        warm_up(cluster, self._scale)

    def _resumed(self, cluster: Running) -> None:
        cluster.resume()
        cluster.wait_in_sync(CALM_S[self._scale])
