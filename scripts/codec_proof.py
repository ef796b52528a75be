"""Every message in every version, many times, against kio, and with its bytes damaged.

    python scripts/codec_proof.py [messages per type] [seed]

The tests do the same with a handful of messages per type.
"""

import contextlib
import sys
from pathlib import Path
from random import Random
from time import monotonic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import kio_oracle
from support.protocol_messages import EVERY_MESSAGE, every_exchange, versions_of
from support.random_messages import random_message
from tidelog.wire.protocol import Message, ProtocolError, decode_at, encode


def same_as_kio(each: int, random: Random) -> int:
    compared = 0
    for exchange in every_exchange():
        theirs = kio_oracle.load(exchange.key, exchange.version, exchange.direction)
        for _ in range(each):
            entity = kio_oracle.random_entity(theirs, random)
            message = kio_oracle.to_ours(entity, exchange.message)
            data = kio_oracle.encoded(entity)
            assert encode(message, exchange.version) == data, (exchange, message)
            heard, end = decode_at(exchange.message, exchange.version, data)
            assert (heard, end) == (message, len(data)), (exchange, message)
            compared += 1
    return compared


def damaged(each: int, random: Random) -> int:
    refused = 0
    for message in EVERY_MESSAGE:
        for version in versions_of(message):
            for _ in range(each):
                data = bytearray(encode(random_message(message, version, random), version))
                damage(data, random)
                refused += is_refused(message, version, data)
    return refused


def damage(data: bytearray, random: Random) -> None:
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(len(data) + 1)
        how = random.randrange(4)
        if how == 0:
            del data[at:]
        elif how == 1:
            data[at:at] = random.randbytes(random.randrange(1, 8))
        elif how == 2:
            data[at : at + 4] = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"))
        elif data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def is_refused(message: type[Message], version: int, data: bytearray) -> bool:
    with contextlib.suppress(ProtocolError):
        decode_at(message, version, data)
        return False
    return True


def main() -> None:
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = monotonic()
    compared = same_as_kio(each, Random(seed))
    print(f"{compared} messages: the same bytes as kio, read as they were written")
    refused = damaged(each, Random(seed))
    print(f"{refused} damaged messages refused, the rest read, nothing else raised")
    print(f"{monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
