"""Where Spark keeps how far a pipeline is: beside its other files, or in an object store."""

import json
from pathlib import Path
from typing import Any, Final, Protocol

from tidelog.spark.checkpoint_store.objects import Objects
from tidelog.spark.tables.stores import Store

WORDS_FILE: Final = "tidelog.json"


class Checkpoint(Protocol):
    @property
    def shown(self) -> str:
        """For people, and for whoever looks for it later."""
        ...

    def location(self) -> str:
        """What Spark is told."""
        ...

    def newest(self, kind: str) -> int | None:
        """The last batch of `offsets` or `commits`."""
        ...

    def read(self, kind: str, batch: int) -> str:
        """FileNotFoundError if it is not there any more."""
        ...

    def words(self) -> dict[str, Any]:
        """What was kept with it of the pipeline it belongs to; empty if nothing was."""
        ...

    def keep(self, words: dict[str, Any]) -> None: ...


class DirectoryCheckpoint:
    """Of the machine, or of one that it mounts. The pipeline's own files lie beside it."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def shown(self) -> str:
        return str(self._path.parent)

    def location(self) -> str:
        return str(self._path)

    def newest(self, kind: str) -> int | None:
        return max((int(each.name) for each in (self._path / kind).glob("[0-9]*")), default=None)

    def read(self, kind: str, batch: int) -> str:
        return (self._path / kind / str(batch)).read_text("utf-8")

    def words(self) -> dict[str, Any]:
        return {}

    def keep(self, words: dict[str, Any]) -> None:
        """They are beside it."""


class StoredCheckpoint:
    """In an object store, where a driver on another machine finds it."""

    __slots__ = ("_objects", "_place")

    def __init__(self, place: Store) -> None:
        self._place = place
        self._objects = Objects(place)

    @property
    def shown(self) -> str:
        return self._place.place

    def location(self) -> str:
        from tidelog.spark.checkpoint_store.serving import location_of  # noqa: PLC0415 - a server

        return location_of(self._place)

    def newest(self, kind: str) -> int | None:
        found, _ = self._objects.within(kind)
        return max((int(each.name) for each in found if each.name.isdecimal()), default=None)

    def read(self, kind: str, batch: int) -> str:
        return self._objects.read(f"{kind}/{batch}").decode("utf-8")

    def words(self) -> dict[str, Any]:
        try:
            words = json.loads(self._objects.read(WORDS_FILE))
        except (FileNotFoundError, ValueError):
            return {}
        return words if isinstance(words, dict) else {}

    def keep(self, words: dict[str, Any]) -> None:
        self._objects.write(WORDS_FILE, json.dumps(words, indent=2).encode(), overwrite=True)
