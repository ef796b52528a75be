"""Whether there is a client to measure with: asked before anything is started."""

from tidelog.bench.compare.system import SystemMissing
from tidelog.bench.compare.topics import library
from tidelog.cli.failure import CommandError


def check_client() -> None:
    try:
        library()
    except SystemMissing as missing:
        raise CommandError(
            "there is no client to measure with",
            why=str(missing),
            advice="pip install 'tidelog[dev]', or make bench, which does it",
        ) from None
