"""Names of APIs and errors as people write them in tests."""

from collections.abc import Iterable
from difflib import get_close_matches

from tidelog.core.errors import Error
from tidelog.rpc.failed_answers import can_fail
from tidelog.wire.protocol.apis import APIS, Api

CUTOFF = 0.5


def key_of(api: str) -> Api:
    """`Produce`; ValueError for one that clients cannot ask for."""
    known = {each.name: each for each in APIS if each.for_clients and can_fail(each.key)}
    found = known.get(api) or {name.lower(): each for name, each in known.items()}.get(api.lower())
    if found is None:
        raise ValueError(f"no API {api!r} that can be answered with an error{_meant(api, known)}")
    return found


def error_of(name: str) -> Error:
    """`NOT_ENOUGH_REPLICAS`; ValueError for one that Kafka does not know."""
    errors = {each.name: each for each in Error if each is not Error.NONE}
    found = errors.get(name.upper())
    if found is None:
        raise ValueError(f"no error of Kafka's is called {name!r}{_meant(name.upper(), errors)}")
    return found


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=CUTOFF)
    return f": {near[0]}, if that was meant" if near else f"; there are {', '.join(sorted(known))}"
