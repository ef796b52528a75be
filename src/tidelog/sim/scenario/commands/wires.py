"""Messages that are late or lost, connections that are cut, metadata that lags."""

from tidelog.sim.scenario import produce as producing
from tidelog.sim.scenario import wire
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.clients import CLIENT
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.control import Call
from tidelog.sim.scenario.exchange import Exchange
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import Stage

_KINDS = "|".join(wire.KINDS)


@command("hold", f"{_KINDS} BROKER (produce has no broker)")
def hold(stage: Stage, arguments: Arguments) -> None:
    """The next message of this kind from or to the broker stays on the wire."""
    kind = arguments.choice("a message", wire.KINDS)
    stage.wire.hold_next(kind, _end(stage, kind, arguments))


@command("deliver", f"{_KINDS} BROKER [zero-copy]")
def deliver(stage: Stage, arguments: Arguments) -> None:
    """A message that was held arrives; `zero-copy`: its bytes are read only now."""
    kind, broker, message = _take(stage, arguments)
    zero_copy = arguments.flag("zero-copy")
    if isinstance(message, producing.Produce):
        producing.deliver(stage, message)
    elif isinstance(message, Exchange):
        message.told = [f"{kind} of {message.follower.name} arrives"]
        if kind == wire.FETCH:
            message.deliver_request()
        else:
            message.deliver_answer(zero_copy=zero_copy)
        message.tell()
    elif isinstance(message, Call):
        assert broker is not None, message
        if kind == wire.RESULT:
            broker.link.receive(message)
        else:
            stage.control.handle(message)


@command("drop", f"{_KINDS} BROKER")
def drop(stage: Stage, arguments: Arguments) -> None:
    """A message that was held is lost. Its sender notices that no answer comes."""
    kind, broker, message = _take(stage, arguments)
    if isinstance(message, Exchange):
        message.told = []
        message.lose(f"{kind} of {message.follower.name} is lost")
        message.tell()
    elif isinstance(message, Call):
        assert broker is not None, message
        broker.link.on_lost(message)


@command("isolate", "BROKER [from=(controller,BROKER,…)]")
def isolate(stage: Stage, arguments: Arguments) -> None:
    """Cut the broker off from the controller and the other brokers; clients still reach it."""
    broker = stage.broker(arguments.word("a broker"))
    value = arguments.option("from")
    others = [wire.CONTROLLER, *(other for other in stage.brokers if other != broker.id)]
    if value is not None:
        others = [
            wire.CONTROLLER if name == "controller" else stage.broker(name).id
            for name in list_of("from", value)
        ]
    stage.wire.cut(broker.id, others)


@command("heal", "BROKER")
def heal(stage: Stage, arguments: Arguments) -> None:
    """The broker is connected again: it speaks to the controller and hears what it missed."""
    broker = stage.broker(arguments.word("a broker"))
    stage.wire.heal(broker.id)
    with stage.telling_roles(broker):
        broker.link.poke()
        if broker.hears_controller:
            broker.catch_up_metadata()


@command("metadata", "BROKER hold|apply [entries=N]")
def metadata(stage: Stage, arguments: Arguments) -> None:
    """From now on the broker lags behind in metadata; or it applies what it has missed."""
    broker = stage.broker(arguments.word("a broker"))
    if arguments.choice("what to do", ("hold", "apply")) == "hold":
        broker.metadata_held = True
        return
    entries = arguments.number("entries", 0)
    with stage.telling_roles(broker):
        broker.catch_up_metadata(entries or None)
        broker.metadata_held = bool(entries)


@command("fill-metadata", "to=OFFSET")
def fill_metadata(stage: Stage, arguments: Arguments) -> None:
    """Other things happen in the cluster: the metadata log grows, and with it broker epochs."""
    offset = arguments.number("to", 0)
    if offset < stage.control.next_offset:
        raise ArgumentError(f"the metadata log ends at {stage.control.next_offset} already")
    stage.control.fill(offset)


def _end(stage: Stage, kind: str, arguments: Arguments) -> int:
    return CLIENT if kind == wire.PRODUCE else stage.broker(arguments.word("a broker")).id


def _take(stage: Stage, arguments: Arguments) -> tuple[str, StageBroker | None, object]:
    kind = arguments.choice("a message", wire.KINDS)
    end = _end(stage, kind, arguments)
    message = stage.wire.take(kind, end)
    if message is None:
        raise ArgumentError(f"no {kind} is on the wire")
    return kind, stage.brokers.get(end), message
