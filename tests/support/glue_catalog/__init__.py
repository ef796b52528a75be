"""AWS Glue as moto plays it, as a process of its own.

It keeps databases and tables in its memory and lets everybody in. It does not compare the
`VersionId` of an update with that of the table, so it takes both of two commits that meet: nothing
may be concluded from it about drivers that commit at once.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.server_process import announced

REGION = "eu-west-1"


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """What pyiceberg has to be told of the catalog, while it runs."""
    with announced([sys.executable, Path(__file__).with_name("serve.py")]) as address:
        yield {"type": "glue", "glue.endpoint": f"http://{address}", "glue.region": REGION}
