"""Requests that are made to fail: the next few of an API get an error and are not carried out.

Only for nodes that may be broken on purpose (`tidelog.chaos.enable`). While nothing is scripted,
no request takes another way than usual: a script replaces the handler of its API in the table, and
gives it back when it has been played.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tidelog.core.errors import Error
from tidelog.host.locks import new_lock
from tidelog.node.throttling import is_from_replica
from tidelog.rpc import ApiTable, Call, Handler
from tidelog.rpc.calls import AmendedCall
from tidelog.rpc.failed_answers import METADATA, can_fail, fail_metadata, failed_answer
from tidelog.wire.protocol import API_BY_KEY, ZERO_UUID

OWN_CLIENT = "tidelog.testing"
"""Whoever watches a cluster under test is not the client that is tested."""


class Script:
    """So many answers to one API. Nodes of one process may share one, and play it together."""

    __slots__ = ("_lock", "api_key", "error", "left", "topic")

    def __init__(self, api_key: int, error: Error, times: int, topic: str | None = None) -> None:
        assert times > 0, times
        assert can_fail(api_key), API_BY_KEY[api_key].name
        self.api_key = api_key
        self.error = error
        self.left = times
        self.topic = topic
        """Only requests that name it; None: any."""
        self._lock: AbstractContextManager[bool] = new_lock()

    def take(self) -> bool:
        """True if this request is to fail."""
        with self._lock:
            taken = self.left > 0
            self.left -= taken
            return taken

    def describe(self) -> dict[str, object]:
        name = API_BY_KEY[self.api_key].name
        return {"api": name, "error": self.error.name, "times": self.left, "topic": self.topic}


class ScriptedAnswers:
    """The scripts of one node, on the tables that its clients are served from."""

    __slots__ = ("_scripts", "_tables", "_topic_name")

    def __init__(
        self, tables: Sequence[ApiTable], topic_name: Callable[[bytes], str | None]
    ) -> None:
        self._tables = tables
        self._topic_name = topic_name
        self._scripts: dict[int, list[Script]] = {}

    def add(self, script: Script) -> None:
        """Behind those that there are for the same API."""
        scripts = self._scripts.setdefault(script.api_key, [])
        scripts.append(script)
        if len(scripts) == 1:
            for table in self._tables:
                table.intercept(script.api_key, self._play)

    def clear(self) -> None:
        for key in list(self._scripts):
            self._forget(key)

    def describe(self) -> list[dict[str, object]]:
        return [each.describe() for scripts in self._scripts.values() for each in scripts]

    def _forget(self, key: int) -> None:
        del self._scripts[key]
        for table in self._tables:
            table.give_back(key)

    def _play(self, usual: Handler, call: Call) -> None:
        key = call.header.api_key
        scripts = self._scripts.get(key, [])
        found = None
        if call.client_id != OWN_CLIENT and not is_from_replica(call.request):
            concerned = [each for each in scripts if self._concerns(each, call.request)]
            found = next((each for each in concerned if each.take()), None)
        scripts[:] = [each for each in scripts if each.left > 0]
        if not scripts and key in self._scripts:
            self._forget(key)
        if found is None:
            usual(call)
        else:
            fail(usual, call, found.error)

    def _concerns(self, script: Script, request: Any) -> bool:
        return script.topic is None or script.topic in self._topics_of(request)

    def _topics_of(self, request: Any) -> set[str | None]:
        """The names of topics that a request is about, at the places where requests have them."""
        names: set[str | None] = set()
        for field in ("topics", "topic_data", "v3_and_below_topics"):
            for item in getattr(request, field, None) or ():
                topic_id = getattr(item, "topic_id", ZERO_UUID)
                names.add(getattr(item, "name", None) or getattr(item, "topic", None))
                if topic_id != ZERO_UUID:
                    names.add(self._topic_name(topic_id))
        names.update(getattr(request, "topic_names", None) or ())
        return names


def fail(usual: Handler, call: Call, error: Error) -> None:
    """Answer with the error. With acks=0 there is no answer: the connection ends, as in Kafka."""
    if call.header.api_key == METADATA:
        usual(AmendedCall(call, partial(fail_metadata, error)))
    elif getattr(call.request, "acks", None) == 0:
        call.answer_nothing()
        call.close()
    else:
        call.answer(failed_answer(call.request, call.version, error))
