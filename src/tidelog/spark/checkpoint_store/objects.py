"""Objects below a place, by obstore: it can write one only if there is none of that name."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.spark.tables.store_options import AZURE, GCS, S3
from tidelog.spark.tables.stores import Store, scheme_of, told

if TYPE_CHECKING:
    from obstore.store import ObjectStore

DOING: Final = "cannot use the checkpoint at"
OF_DELTA: Final = ("AWS_S3_LOCKING_PROVIDER", "DELTA_DYNAMO_TABLE_NAME")
"""Options that delta-rs alone knows."""
TRIES: Final[Any] = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}


class AlreadyThere(Exception):  # noqa: N818 - it names what is so
    """An object was not to be written over."""


class Found(NamedTuple):
    name: str
    size_bytes: int
    modified_ms: int


class Objects:
    """Paths are below the place, without a slash at either end. TidelogError if the store cannot
    be used."""

    __slots__ = ("_place", "_root", "_store")

    def __init__(self, place: Store) -> None:
        self._place = place
        self._root = urlsplit(place.place).path.strip("/")
        with self._told():
            self._store = object_store(place)

    def find(self, path: str) -> Found | None:
        import obstore  # noqa: PLC0415 - an extra

        with self._told():
            try:
                return _found(obstore.head(self._store, self._key(path)))
            except FileNotFoundError:
                return None

    def are_below(self, path: str) -> bool:
        objects, directories = self.within(path)
        return bool(objects or directories)

    def within(self, path: str) -> tuple[list[Found], list[str]]:
        """Objects of a directory, and names of the directories in it."""
        import obstore  # noqa: PLC0415 - an extra

        with self._told():
            found = obstore.list_with_delimiter(self._store, self._key(path))
        inner = [each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"]]
        return [_found(each) for each in found["objects"]], inner

    def read(self, path: str) -> bytes:
        """FileNotFoundError if there is none."""
        import obstore  # noqa: PLC0415 - an extra

        with self._told():
            return bytes(obstore.get(self._store, self._key(path)).bytes())

    def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
        """It is there as a whole, or not at all. AlreadyThere, if it is not to be overwritten."""
        import obstore  # noqa: PLC0415 - an extra
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415

        mode: Any = "overwrite" if overwrite else "create"
        with told(self._place, DOING):  # nothing can be missing but the bucket
            try:
                obstore.put(self._store, self._key(path), data, mode=mode, use_multipart=False)
            except AlreadyExistsError:
                there = True
            else:
                there = False
        if there:
            raise AlreadyThere(path)

    def remove(self, path: str) -> bool:
        """Whether it was there."""
        import obstore  # noqa: PLC0415 - an extra

        if self.find(path) is None:
            return False
        with self._told():
            obstore.delete(self._store, self._key(path))
        return True

    def remove_below(self, path: str) -> bool:
        import obstore  # noqa: PLC0415 - an extra

        with self._told():
            keys = [
                each["path"] for some in obstore.list(self._store, self._key(path)) for each in some
            ]
            if keys:
                obstore.delete(self._store, keys)
        return bool(keys)

    def _key(self, path: str) -> str:
        return "/".join(each for each in (self._root, path) if each)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, AlreadyThere):
            raise
        except Exception as error:  # whatever a store or its library says
            with told(self._place, DOING):
                raise error from None


def object_store(place: Store) -> "ObjectStore":
    """Of a bucket or a container. obstore takes the options that delta-rs takes."""
    from obstore.store import AzureStore, GCSStore, S3Store  # noqa: PLC0415 - an extra

    options = {
        name: value for name, value in (place.delta_options() or {}).items() if name not in OF_DELTA
    }
    given: dict[str, Any] = {
        "client_options": {"allow_http": options.pop("ALLOW_HTTP", "") == "true"},
        "retry_config": TRIES,
        "config": {name.lower(): value for name, value in options.items()},
    }
    bucket = urlsplit(place.place).netloc.partition("@")[0]
    kinds: dict[str, Any] = {S3: S3Store, GCS: GCSStore, AZURE: AzureStore}
    store: ObjectStore = kinds[scheme_of(place.place)](bucket, **given)
    return store


def _found(head: Any) -> Found:
    modified_ms = int(head["last_modified"].timestamp() * 1000)
    return Found(head["path"].rpartition("/")[2], head["size"], modified_ms)
