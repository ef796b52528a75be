"""From a whole-node plan that fails to the smallest one found that still breaks the same rule.

First goes what came after the violation. Then the world gets as small as it can at one go, which
makes every further try cheaper. Then the faults go, by delta debugging: most have nothing to do
with it. What is left happens sooner and ends sooner. Then clients, topics, partitions and nodes;
then every knob is turned to its plainest setting. Each pass only proposes; a proposal stays if the
*same* rule still fails. The passes are repeated until none of them finds anything.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from tidelog.sim.nodes import smaller_plans as smaller
from tidelog.sim.nodes.client_plan import ClientPlan
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.plan import NodePlan

Fails = Callable[[NodePlan], str | None]
"""The rule this plan breaks, or None."""

Item = TypeVar("Item")

TRIES_MAX: Final = 500
SHORT_CALM_MS: Final = (200, 1_000)
SMALL_INTERNAL_TOPICS: Final = (
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.num.partitions", "1"),
)
SHORT_FAULTS_MS: Final = (100, 1_000)


class Shrunk(NamedTuple):
    plan: NodePlan
    rule: str
    tries: int


class _Search:
    """The best plan so far and how many runs it took."""

    __slots__ = ("_expired", "_fails", "_tries_max", "best", "rule", "tries")

    def __init__(
        self, plan: NodePlan, rule: str, fails: Fails, tries_max: int, expired: Callable[[], bool]
    ) -> None:
        self.best = plan
        self.rule = rule
        self.tries = 0
        self._fails = fails
        self._tries_max = tries_max
        self._expired = expired

    @property
    def over(self) -> bool:
        return self.tries >= self._tries_max or self._expired()

    def accept(self, candidate: NodePlan | None) -> bool:
        """Keep the candidate if it breaks the same rule."""
        if candidate is None or candidate == self.best or self.over:
            return False
        self.tries += 1
        if self._fails(candidate) != self.rule:
            return False
        self.best = candidate
        return True

    def accept_cluster(self, cluster: ClusterPlan) -> bool:
        return self.accept(self.best._replace(cluster=cluster))


def shrink(
    plan: NodePlan,
    rule: str,
    fails: Fails,
    *,
    broke_at_ms: int | None = None,
    tries_max: int = TRIES_MAX,
    expired: Callable[[], bool] = lambda: False,
) -> Shrunk:
    """The smallest plan found that breaks `rule`, as `plan` did at `broke_at_ms`; `expired` may
    end the search early."""
    search = _Search(plan, rule, fails, tries_max, expired)
    if broke_at_ms is not None:
        search.accept(smaller.ending_at(plan, broke_at_ms))
    _small_world(search)
    while not search.over:
        before = search.best
        for shrink_pass in _PASSES:
            shrink_pass(search)
        if search.best == before:
            break
    return Shrunk(search.best, rule, search.tries)


def minimise(items: Sequence[Item], still_fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Delta debugging: a sublist that still fails and from which no single item can go."""
    current = list(items)
    if current and still_fails([]):
        return []
    parts = 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        for start in range(0, len(current), size):
            rest = current[:start] + current[start + size :]
            if rest and still_fails(rest):
                current = rest
                parts = max(parts - 1, 2)
                break
        else:
            if parts >= len(current):
                return current
            parts = min(len(current), 2 * parts)
    return current


def _small_world(search: _Search) -> None:
    """Guesses that save the most if they are right."""
    search.accept_cluster(_plain(search.best.cluster))
    search.accept(search.best._replace(topics=search.best.topics[:1]))
    search.accept(smaller.with_partitions(search.best, 0, 1))
    search.accept(search.best._replace(clients=_first_of_each(search.best)))


def _plain(cluster: ClusterPlan) -> ClusterPlan:
    return ClusterPlan(cluster.brokers, cluster.voters, cluster.separate)


def _first_of_each(plan: NodePlan) -> ClientPlan:
    clients = plan.clients
    lists = {name: getattr(clients, name)[:1] for name in smaller.lists_of_clients(clients)}
    return clients._replace(**lists)


def _fewer_faults(search: _Search) -> None:
    minimise(
        search.best.faults,
        lambda faults: search.accept(search.best._replace(faults=tuple(faults))),
    )


def _sooner(search: _Search) -> None:
    """A long quiet beginning makes a long story: try to begin at once, or half way there."""
    for calm_ms in SHORT_CALM_MS:
        if search.best.phases.calm_ms > calm_ms and search.accept(
            smaller.less_calm(search.best, calm_ms)
        ):
            break
    for share in (1, 2):
        plan = search.best
        first_ms = min((fault.at_ms for fault in plan.faults), default=plan.phases.calm_ms)
        by_ms = (first_ms - plan.phases.calm_ms) // share
        if by_ms <= 0 or search.accept(smaller.sooner(plan, by_ms)):
            return


def _shorter_tail(search: _Search) -> None:
    """Nothing needs to happen long after the last fault; try less and less of it."""
    for share in (8, 4, 2):
        phases = search.best.phases
        last_ms = max((fault.at_ms for fault in search.best.faults), default=phases.calm_ms)
        kept_ms = max(0, last_ms - phases.calm_ms) + 1
        spare_ms = phases.chaos_ms - kept_ms
        if spare_ms <= 0:
            return
        shorter = phases._replace(chaos_ms=kept_ms + spare_ms // share)
        if search.accept(search.best._replace(phases=shorter)):
            return


def _fewer_clients(search: _Search) -> None:
    def accept(**fields: object) -> bool:
        clients = search.best.clients._replace(**fields)  # type: ignore[arg-type]  # by their names
        return search.accept(search.best._replace(clients=clients))

    for name in smaller.optional_clients(search.best.clients):
        accept(**{name: None})
    for name in smaller.lists_of_clients(search.best.clients):
        minimise(
            getattr(search.best.clients, name),
            lambda some, name=name: accept(**{name: tuple(some)}),  # type: ignore[misc]
        )


def _fewer_topics(search: _Search) -> None:
    """The first topic stays: it is the one that everybody writes to."""
    for index in reversed(range(1, len(search.best.topics))):
        topics = search.best.topics
        search.accept(search.best._replace(topics=topics[:index] + topics[index + 1 :]))
    for index in range(len(search.best.topics)):
        while (partitions := search.best.topics[index].partitions) > 1:
            half = smaller.with_partitions(search.best, index, partitions // 2)
            if not search.accept(half):
                break


def _fewer_nodes(search: _Search) -> None:
    if search.best.cluster.separate:
        search.accept(smaller.with_one_role_each(search.best))
    while search.best.cluster.nodes > 1:
        # The last one first: then nobody is renumbered.
        candidates = reversed(range(1, search.best.cluster.nodes + 1))
        if not any(search.accept(smaller.without_node(search.best, node)) for node in candidates):
            break
    if not search.best.cluster.separate and search.best.cluster.voters > 1:
        search.accept_cluster(search.best.cluster._replace(voters=1))


# Each takes the cluster as it is then: an earlier one may have been accepted.
_PLAINER: Final[tuple[Callable[[ClusterPlan, ClusterPlan], ClusterPlan], ...]] = (
    lambda cluster, plain: cluster._replace(racks=plain.racks),
    lambda cluster, plain: cluster._replace(clocks=plain.clocks),
    lambda cluster, plain: cluster._replace(wire_delay_us=plain.wire_delay_us),
    lambda cluster, plain: cluster._replace(sync_us=plain.sync_us),
)


def _plainer_knobs(search: _Search) -> None:
    plain = ClusterPlan(0, 0)
    for plainer in _PLAINER:
        search.accept_cluster(plainer(search.best.cluster, plain))
    search.accept_cluster(_with_settings(search.best.cluster, search.best.cluster.settings))
    minimise(
        [each for each in search.best.cluster.settings if each not in SMALL_INTERNAL_TOPICS],
        lambda some: search.accept_cluster(_with_settings(search.best.cluster, some)),
    )
    for index in range(len(search.best.topics)):
        topics = list(search.best.topics)
        topics[index] = topics[index]._replace(settings=())
        search.accept(search.best._replace(topics=tuple(topics)))


def _with_settings(cluster: ClusterPlan, settings: Iterable[tuple[str, str]]) -> ClusterPlan:
    """These, and internal topics of one partition: a story names the leader of each."""
    return cluster._replace(
        settings=tuple(sorted({**dict(settings), **dict(SMALL_INTERNAL_TOPICS)}.items()))
    )


def _shorter_faults(search: _Search) -> None:
    for index in range(len(search.best.faults)):
        for lasts_ms in SHORT_FAULTS_MS:
            faults = list(search.best.faults)
            if faults[index].lasts_ms > lasts_ms:
                faults[index] = faults[index]._replace(lasts_ms=lasts_ms)
                if search.accept(search.best._replace(faults=tuple(faults))):
                    break


_PASSES: Final[tuple[Callable[[_Search], None], ...]] = (
    _fewer_faults,
    _sooner,
    _shorter_tail,
    _fewer_clients,
    _fewer_topics,
    _fewer_nodes,
    _plainer_knobs,
    _shorter_faults,
)
