"""A story on a real cluster. The simulator plays the same steps and says what has to come out.

Offsets, epochs, the ISR, high watermarks, unanswered produces and the numbers in fetches and their
answers are compared after each command. Times are not: a cluster is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidelog.cluster.nodes import LocalNodes
from tidelog.lab import free_play
from tidelog.lab.catalogue import Story
from tidelog.lab.documents import Document, message_documents
from tidelog.lab.live_stage import PATIENCE_SECONDS, LivePartition, LiveStage
from tidelog.lab.play import PlayError, play_document
from tidelog.lab.scenes import VIEWS, check_command, read_scene, why_not
from tidelog.lab.telling import Revealed
from tidelog.sim.scenario import ArgumentError, PartitionPicture, Player, look
from tidelog.sim.scenario.commands.pictures import headline
from tidelog.sim.scenario.disks import batches_of
from tidelog.sim.scenario.passed import ARRIVED, FETCH, LOST, TRUNCATE, PassedMessages
from tidelog.sim.scenario.script import SILENCE, Arguments, split_command
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.view import DOWN
from tidelog.sim.scenario.words import Cast

OnSimulator = Callable[[], tuple[str, ...]]
"""Does the same there, and says what it printed."""
CLUSTER = "cluster"
NO_WAY_BACK = "a real cluster cannot go back"
ADVICE = 'play it on the simulator: "on": "sim"'


class LivePlay:
    """Goes forward only. Belongs to one thread."""

    on = CLUSTER

    def __init__(
        self,
        nodes: LocalNodes,
        story: Story,
        step: int = 0,
        *,
        patience_s: float = PATIENCE_SECONDS,
        leaving: threading.Event | None = None,
    ) -> None:
        """When `leaving` is set, whatever is waited for is given up."""
        reason = why_not(story)
        if reason is not None:
            raise PlayError(f"{story.name} plays only on the simulator: {reason}", ADVICE)
        self.story = story
        self.step = 0
        self._free = False
        self._failed = ""
        """Why cluster and simulator no longer stand at the same place."""
        self._revealed: list[Revealed] = []
        self._new_from = 0
        self._oracle = Player(story.script)
        self._live = LiveStage(nodes, patience_s, leaving or threading.Event())
        self._cast = Cast()
        try:
            self.goto(step)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._oracle.close()
        self._live.close()

    @property
    def is_over(self) -> bool:
        return self.step == len(self.story.chapters)

    @property
    def problems(self) -> list[str]:
        """How the last step came out otherwise than on the simulator."""
        return [each.problem for each in self._revealed if each.problem]

    @property
    def revealed(self) -> list[Revealed]:
        """What the last step did."""
        return list(self._revealed)

    # -- moving

    def forward(self) -> None:
        if self.is_over:
            raise PlayError("the story is over", "try a command of your own")
        if self._free:
            raise PlayError("this play has left the story", "begin anew")
        self._revealed = []
        self._new_from = self._live.passed.count
        for directive in self.story.chapters[self.step].directives:
            self._revealed.append(self._carry_out(directive.command, self._play_next))
        self.step += 1

    def _play_next(self) -> tuple[str, ...]:
        step = self._oracle.next()
        assert step is not None, "the script ended before the story"
        return step.output

    def _carry_out(self, command: str, on_simulator: OnSimulator) -> Revealed:
        """PlayError, now and ever after, if one of the two could not."""
        if self._failed:
            raise PlayError(f"this play cannot go on: {self._failed}", "begin anew")
        try:
            return self._perform(command, on_simulator)
        except ArgumentError:
            raise  # the simulator has refused it, and nothing was done
        except Exception as reason:
            self._failed = str(reason) or type(reason).__name__
            raise PlayError(f"{command}: {self._failed}", "tidelog ps, then begin anew") from reason

    def goto(self, step: int) -> None:
        if step < self.step:
            raise PlayError(NO_WAY_BACK, ADVICE)
        if step > len(self.story.chapters):
            last = len(self.story.chapters)
            raise PlayError(f"there is no step {step}", f"a step up to {last}")
        while self.step < step:
            self.forward()

    def back(self) -> None:
        raise PlayError(NO_WAY_BACK, ADVICE)

    def fork(self) -> LivePlay:
        raise PlayError("there is one real cluster, and it cannot be in two states", ADVICE)

    def perform(self, command: str) -> None:
        """Free play: the simulator does the same and is compared."""
        if not self.step:
            raise PlayError("there is nothing on the stage yet", "take the first step")
        try:
            command = free_play.bounded(command)
            check_command(command)
            revealed = self._carry_out(command, lambda: self._oracle.perform(command))
        except ArgumentError as wrong:
            raise PlayError(str(wrong), "for example: fetch 2") from wrong
        self._free = True
        self._revealed.append(revealed._replace(free=True))

    def _perform(self, command: str, on_simulator: OnSimulator) -> Revealed:
        told_before = self._stage.passed.count
        live_before = self._live.passed.count
        told = on_simulator()
        name, arguments = split_command(command)
        passes = any(
            number >= told_before and message.kind == FETCH and message.fate != LOST
            for number, message in self._stage.passed.last()
        )
        if name == "given":
            self._live.set_scene(read_scene(arguments))
            live_before = self._live.passed.count
            self._new_from = live_before
            lines = [f"topic {self._live.topic} on a real cluster", *self._live.told_nodes()]
        elif name == "fetch" and not passes:
            lines = list(told)  # why it does not fetch, or reaches nobody
        else:
            lines = _COMMANDS[name](self, arguments)
        noticed = self._noticed()
        self._live.unheard -= set(noticed)
        problem = self._compare()
        for broker in noticed:
            self._live.bury(broker)
        if not problem and name == "fetch":
            problem = _compare_messages(
                (self._stage.passed, told_before), (self._live.passed, live_before)
            )
        elif not problem and name in ("consume", "audit"):
            problem = self._compare_records()
        return Revealed(command, tuple(lines or [SILENCE]), problem)

    @property
    def _stage(self) -> Stage:
        assert isinstance(self._oracle.stage, Stage), "stories of the quorum have no partition"
        return self._oracle.stage

    def _noticed(self) -> list[int]:
        """Whose death the controller knows of since this command."""
        brokers = self._stage.control.committed.brokers
        return [broker for broker in self._live.unheard if brokers[broker].fenced]

    # -- commands

    def _produce(self, arguments: Arguments) -> list[str]:
        acks = arguments.option("acks", "all") or "all"
        target = arguments.option("to")
        if target is not None and not self._is_up(self._cast.id_of(target)):
            return [f"client: no connection to {target}"]
        return self._live.produce(arguments.words(), acks)

    def _is_up(self, broker: int) -> bool:
        return self._live.is_running(broker) and broker not in self._live.unheard

    def _fetch(self, arguments: Arguments) -> list[str]:
        broker = self._cast.id_of(arguments.word("a broker"))
        one_batch = arguments.option("max") is not None
        times = arguments.number("times", 1)
        return [self._live.fetch(broker, one_batch=one_batch) for _ in range(times)]

    def _advance(self, arguments: Arguments) -> list[str]:
        """What has to happen in that time is waited for."""
        return []

    def _hold(self, arguments: Arguments) -> list[str]:
        arguments.word("a message")
        self._live.hold_answer(self._cast.id_of(arguments.word("a broker")))
        return []

    def _drop(self, arguments: Arguments) -> list[str]:
        arguments.word("a message")
        return self._live.drop_answer(self._cast.id_of(arguments.word("a broker")))

    def _crash(self, arguments: Arguments) -> list[str]:
        unnoticed = arguments.flag("unnoticed")
        broker = self._cast.id_of(arguments.word("a broker"))
        return self._live.crash(broker, unnoticed=unnoticed)

    def _restart(self, arguments: Arguments) -> list[str]:
        return self._live.restart(self._cast.id_of(arguments.word("a broker")))

    def _consume(self, arguments: Arguments) -> list[str]:
        return [self._live.consume(arguments.number("offset", 0))]

    def _audit(self, arguments: Arguments) -> list[str]:
        return [f"a consumer reads {' '.join(self._live.committed())}"]

    def _view(self, arguments: Arguments) -> list[str]:
        return _picture(look(self._stage), self._live.look())

    # -- comparing

    def _compare(self) -> str:
        """How the cluster differs from the simulator when it had time enough; empty: not at all."""
        deadline = time.monotonic() + self._live.patience_s
        expected = look(self._stage)
        parked = sum(len(broker.parked) for broker in self._stage.brokers.values())
        while True:
            problem = self._difference(expected, self._live.look())
            if not problem and self._live.parked != parked:
                problem = f"{self._live.parked} produces are not answered, told {parked}"
            if not problem or time.monotonic() > deadline:
                return problem
            self._live.pause()

    def _compare_records(self) -> str:
        """Committed records, as a consumer of the leader reads them."""
        leader = self._stage.leading_broker()
        hosted = None if leader is None else leader.hosted
        assert hosted is not None, "nobody leads, and somebody was read from"
        below = hosted.replica.high_watermark
        told = [str(batch) for batch in batches_of(hosted.log) if batch.last_offset < below]
        found = self._live.committed()
        return "" if told == found else f"committed records: told {told}, came out {found}"

    def _difference(self, expected: PartitionPicture, live: LivePartition) -> str:
        if not self._live.unheard:
            told = (expected.leader, expected.leader_epoch, sorted(expected.isr))
            leader = "none" if live.leader is None else str(live.leader)
            found = (leader, live.leader_epoch, sorted(map(str, live.isr)))
            if told != found:
                return f"leader, leader epoch and ISR: told {told}, came out {found}"
        for replica in expected.replicas:
            broker = self._cast.id_of(replica.broker)
            if replica.role == DOWN or not self._is_up(broker):
                continue
            own = live.replicas.get(broker)
            if own is None:
                return f"{broker} does not say what it has"
            if own.log_end != replica.log_end_offset:
                return f"log end of {broker}: told {replica.log_end_offset}, is {own.log_end}"
            if own.epochs != replica.epochs:
                return f"leader epochs of {broker}: told {replica.epochs}, are {own.epochs}"
            knows = broker not in self._live.forgetful
            if knows and own.high_watermark != replica.high_watermark:
                mark = own.high_watermark
                return f"high watermark of {broker}: told {replica.high_watermark}, is {mark}"
        return ""

    # -- what it shows

    def document(self) -> Document:
        shown = {
            "partition": self._partition_document(),
            "quorum": None,
            "free": self._free,
            "commands": [
                offer._asdict() for offer in free_play.offers(self._stage) if _can_do(offer.text)
            ],
        }
        return play_document(self.story, self.step, self._revealed) | {"on": self.on} | shown

    def _partition_document(self) -> Document | None:
        if not self._live.is_set:
            return None
        live, seen = self._live.look(), look(self._stage)
        own = live.replicas.get(live.leader) if live.leader is not None else None
        return {
            "name": f"{self._live.topic}-0",
            "topic": self._live.topic,
            "partition": 0,
            "leader": live.leader,
            "preferred": self._cast.id_of(seen.assignment[0]),
            "leader_epoch": live.leader_epoch,
            "partition_epoch": live.partition_epoch,
            "replicas": [self._cast.id_of(name) for name in seen.assignment],
            "isr": list(live.isr),
            "min_isr": 1,
            "log_start": None if own is None else own.log_start,
            "high_watermark": None if own is None else own.high_watermark,
            "log_end": None if own is None else own.log_end,
            "state": _state(seen, live),
            "since_ms": None,
            "bytes": None,
            "replica_logs": [
                self._replica_document(self._cast.id_of(name), live) for name in seen.assignment
            ],
            "parked_produces": self._live.parked,
            "consumers": [],
            "producers": [],
            "messages": message_documents(self._live.passed, self._new_from, str),
            "mode": "live",
        }

    def _replica_document(self, broker: int, live: LivePartition) -> Document:
        """Of one that is down, as it was last seen."""
        own = self._live.last_seen.get(broker)
        leader = live.replicas.get(live.leader) if live.leader is not None else None
        lag = None if own is None or leader is None else max(0, leader.log_end - own.log_end)
        return {
            "broker": broker,
            "node": self._live.node_of(broker),
            "role": "leader" if broker == live.leader else "follower",
            "in_isr": broker in live.isr,
            "state": "alive" if self._is_up(broker) else DOWN,
            "last_seen_ms": None,
            "log_start": None if own is None else own.log_start,
            "high_watermark": None if own is None else own.high_watermark,
            "log_end": None if own is None else own.log_end,
            "epochs": [] if own is None else [list(entry) for entry in own.epochs],
            "diverges_at": None if own is None or leader is None else own.differs_from(leader),
            "lag": lag,
        }


_COMMANDS: dict[str, Callable[[LivePlay, Arguments], list[str]]] = {
    "produce": LivePlay._produce,
    "fetch": LivePlay._fetch,
    "advance": LivePlay._advance,
    "hold": LivePlay._hold,
    "drop": LivePlay._drop,
    "crash": LivePlay._crash,
    "restart": LivePlay._restart,
    "consume": LivePlay._consume,
    **dict.fromkeys(VIEWS, LivePlay._view),
    "audit": LivePlay._audit,
}


def _can_do(command: str) -> bool:
    try:
        check_command(command)
    except ArgumentError:
        return False
    return True


def _state(seen: PartitionPicture, live: LivePartition) -> str:
    if live.leader is None:
        return "offline"
    return "healthy" if len(live.isr) == len(seen.assignment) else "under-replicated"


def _picture(seen: PartitionPicture, live: LivePartition) -> list[str]:
    shown = seen._replace(
        leader="none" if live.leader is None else str(live.leader),
        leader_epoch=live.leader_epoch,
        isr=tuple(map(str, live.isr)),
    )
    lines = [headline(shown)]
    for name in seen.assignment:
        own = live.replicas.get(int(name))
        crown = "♛" if live.leader == int(name) else " "
        told = "down" if own is None else f"HW {own.high_watermark}  end {own.log_end}"
        lines.append(f" {crown} {name}  {told}")
    return lines


def _compare_messages(told: tuple[PassedMessages, int], live: tuple[PassedMessages, int]) -> str:
    """Numbers in fetches and answers; empty if they are the same."""
    expected, found = (_numbers(messages, before) for messages, before in (told, live))
    return "" if expected == found else f"messages: told {expected}, came out {found}"


def _numbers(messages: PassedMessages, before: int) -> list[str]:
    return [
        f"{message.source} -> {message.target} {message.text}"
        for number, message in messages.last()
        if number >= before and message.kind != TRUNCATE and message.fate == ARRIVED
    ]
