"""Free play: what one may do beyond the story, and what would take too long."""

import re
from string import ascii_lowercase
from typing import NamedTuple

from tidelog.core.types import NO_LEADER
from tidelog.sim.scenario import ArgumentError, PartitionPicture, look
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.gate import PRODUCE
from tidelog.sim.scenario.quorum import OPENING, QuorumStage
from tidelog.sim.scenario.script import duration_ms
from tidelog.sim.scenario.stage import Stage

LONGEST_COMMAND = 200
LONGEST_DURATION_MS = 300_000
MOST_DIGITS = 3
MOST_COMMANDS = 100
"""All of them are carried out again when one goes back."""
SCENES = ("given", OPENING)
SYNONYMS = {"kill": "crash"}

_DURATION = re.compile(r"[0-9]+(ms|s|min)")
_LONG_NUMBER = re.compile(rf"[0-9]{{{MOST_DIGITS + 1},}}")


class Offer(NamedTuple):
    """A command that makes sense now."""

    text: str
    label: str


def bounded(command: str) -> str:
    """The command as the stage knows it. ArgumentError if it could keep the stage busy."""
    if len(command) > LONGEST_COMMAND:
        raise ArgumentError(f"a command has at most {LONGEST_COMMAND} characters")
    name, space, rest = command.strip().partition(" ")
    name = SYNONYMS.get(name, name)
    if name in SCENES:
        raise ArgumentError(f"{name} begins another scene: free play goes on with this one")
    for word in rest.split():
        if _DURATION.fullmatch(word):
            if duration_ms(word) > LONGEST_DURATION_MS:
                raise ArgumentError(f"{word} is too long: at most 5min pass at once")
        elif _LONG_NUMBER.search(word):
            raise ArgumentError(f"{word}: numbers have at most {MOST_DIGITS} digits in free play")
    return f"{name}{space}{rest}"


def offers(stage: Stage | QuorumStage) -> list[Offer]:
    """What one may do now, the most likely first."""
    if isinstance(stage, QuorumStage):
        return _offers_of_quorum(stage)
    if not stage.is_set:
        return []
    try:
        seen = look(stage)
    except ArgumentError:  # the topic is deleted
        return [Offer("advance 1s", "Let a second pass")]
    found = [] if stage.partition.leader == NO_LEADER else [_produce(seen)]
    for broker in stage.brokers.values():
        found += _offers_for(broker)
    found += _elections(stage, seen)
    for kind, broker_id in stage.gate.held:
        whose = "" if kind == PRODUCE else f" {stage.cast.name_of(broker_id)}"
        found.append(Offer(f"deliver {kind}{whose}", f"Deliver the {kind}{whose} that is held"))
        found.append(Offer(f"drop {kind}{whose}", f"Lose the {kind}{whose} that is held"))
    return [
        *found,
        Offer("consume offset=0", "A consumer reads from the beginning"),
        Offer("advance 1s", "Let a second pass"),
        Offer("advance 30s", "Let 30 seconds pass"),
        Offer("audit", "Is everything committed still there?"),
    ]


def _produce(seen: PartitionPicture) -> Offer:
    used = {name for r in seen.replicas for batch in r.batches for name in batch.names}
    fresh = next((letter for letter in ascii_lowercase if letter not in used), None)
    text = "produce count=1 acks=all" if fresh is None else f"produce {fresh} acks=all"
    return Offer(text, "Produce a record" if fresh is None else f"Produce {fresh}")


def _offers_for(broker: StageBroker) -> list[Offer]:
    name = broker.name
    if not broker.running:
        return [Offer(f"restart {name}", f"Restart broker {name}")]
    if broker.paused:
        return [Offer(f"resume {name}", f"Resume broker {name}")]
    found: list[Offer] = []
    hosted = broker.hosted
    if hosted is not None and hosted.follower is not None:
        found.append(Offer(f"fetch {name}", f"Broker {name} fetches"))
    found.append(Offer(f"crash {name}", f"Kill broker {name}"))
    found.append(Offer(f"pause {name}", f"Pause broker {name}"))
    return found


def _elections(stage: Stage, seen: PartitionPicture) -> list[Offer]:
    if stage.partition.leader == NO_LEADER:
        return [Offer("elect unclean", "Elect a leader that may lack records")]
    preferred = seen.assignment[0]
    if preferred != seen.leader and preferred in seen.isr:
        return [Offer("elect preferred", f"Let {preferred} lead again")]
    return []


def _offers_of_quorum(stage: QuorumStage) -> list[Offer]:
    if not stage.machines:
        return []
    found: list[Offer] = []
    for machine in stage.machines.values():
        kind, name = "broker" if machine.is_broker else "node", machine.name
        if machine.node is None:
            found.append(Offer(f"restart {name}", f"Restart {kind} {name}"))
            continue
        found.append(Offer(f"crash {name}", f"Kill {kind} {name}"))
        if not machine.is_broker:
            found.append(Offer(f"isolate {name}", f"Cut node {name} off"))
    return [
        *found,
        Offer("heal", "Mend every cut"),
        Offer("run 3s", "Let three seconds pass"),
        Offer("run 12s", "Let twelve seconds pass"),
        Offer("audit", "Who led, and is everything committed still there?"),
    ]
