"""Questions to any registry that speaks the REST API, for callers without an event loop."""

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

from tidelog.registry.languages.words import (
    AVRO,
    PROTOBUF,
    InvalidSchema,
    Reference,
    Schema,
    references_in,
)

ANSWER_WITHIN_S: Final = 10
TRIES: Final = 3
PAUSE_S: Final = 0.5


class RegistryUnreachable(Exception):  # noqa: N818 - it names what is so
    """Nobody answered, or the answer was not that of a registry."""


class NotInRegistry(Exception):  # noqa: N818
    """The registry says that there is no such thing."""


class RegistryClient:
    """What was found once by its id is kept: an id means one schema for ever."""

    def __init__(self, url: str) -> None:
        """`http://host:8081`, with `user:password@` before the host where a login is wanted;
        ValueError if it is no such thing."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not http://host:port")
        host = parts.netloc.rpartition("@")[2]
        self.url = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{parts.username}:{parts.password or ''}"
            login = urllib.parse.unquote(pair).encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._known: dict[int, Schema] = {}

    def schema(self, schema_id: int) -> Schema:
        """NotInRegistry if there is none; Protobuf comes as a descriptor."""
        if schema_id not in self._known:
            found = self._with_descriptor(f"/schemas/ids/{schema_id}")
            self._known[schema_id] = found
        return self._known[schema_id]

    def versions(self, subject: str) -> list[Schema]:
        """All that are not deleted, in order."""
        quoted = urllib.parse.quote(subject, safe="")
        numbers = self.get(f"/subjects/{quoted}/versions")
        return [self._with_descriptor(f"/subjects/{quoted}/versions/{each}") for each in numbers]

    def resolve(self, reference: Reference) -> Schema:
        quoted = urllib.parse.quote(reference.subject, safe="")
        path = f"/subjects/{quoted}/versions/{reference.version}"
        try:
            return self._with_descriptor(path, "deleted=true")
        except NotInRegistry as reason:
            raise InvalidSchema(str(reason)) from None

    def _with_descriptor(self, path: str, *query: str) -> Schema:
        suffix = f"?{'&'.join(query)}" if query else ""
        found = _schema_in(self.get(path + suffix))
        if found.kind == PROTOBUF:
            found = _schema_in(self.get(f"{path}?{'&'.join([*query, 'format=serialized'])}"))
        return found

    def get(self, path: str) -> Any:
        # The scheme of the address was checked.
        request = urllib.request.Request(self.url + path, headers=self._headers)  # noqa: S310
        ask = urllib.request.urlopen
        for tries_left in reversed(range(TRIES)):
            try:
                with ask(request, timeout=ANSWER_WITHIN_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                reason = _told(error)
                if error.code == 404:
                    raise NotInRegistry(reason) from None
                if error.code < 500 or tries_left == 0:
                    raise RegistryUnreachable(
                        f"{self.url} answers {error.code}: {reason}"
                    ) from None
            except (OSError, ValueError) as error:
                if tries_left == 0:
                    why = getattr(error, "reason", None) or error
                    raise RegistryUnreachable(f"{self.url} cannot be reached: {why}") from None
            time.sleep(PAUSE_S)
        raise AssertionError("the last try returns or raises")


def _told(error: urllib.error.HTTPError) -> str:
    with error:
        try:
            return str(json.load(error)["message"])
        except (ValueError, KeyError, TypeError, OSError):
            return str(error.reason)


def _schema_in(document: Any) -> Schema:
    try:
        kind = document.get("schemaType") or AVRO
        return Schema(kind, document["schema"], references_in(document))
    except (AttributeError, KeyError, TypeError):
        raise RegistryUnreachable("the answer is not that of a schema registry") from None
