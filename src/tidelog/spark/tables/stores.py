"""Where tables lie: a directory, or a place in an object store; and how each library is told.

A place is written in one way: an absolute path, or `s3://bucket/key`, `gs://bucket/key`,
`abfss://container@account.dfs.core.windows.net/key`, without a slash at its end.
"""

import functools
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.tables.store_options import AZURE, GCS, NAMES, S3, StoreOptions

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

LOCAL: Final = "file"
_SCHEMES: Final = {
    LOCAL: LOCAL,
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
    "abfs": AZURE,
    "abfss": AZURE,
}
"""What others say for the same comes out as one."""
_AZURE_HOST: Final = ".dfs.core.windows.net"
_FILE_IO: Final = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
GOOGLE_TRIES_FOR: Final = timedelta(seconds=30)
"""By itself pyarrow looks a quarter of an hour for a login, or for a host that is not there."""
REGION_ANYWHERE: Final = "us-east-1"
"""A store at an endpoint of its own has no regions, and signatures name one."""


def located(text: str) -> str:
    """The place in the one way it is written; InvalidOption if there can be none."""
    scheme, mark, rest = text.strip().partition("://")
    if not mark:
        return str(Path(text).resolve())
    known = _SCHEMES.get(scheme.lower())
    if known is None:
        raise InvalidOption(
            f"there are no tables at {scheme}://", "a directory, or s3://, gs://, abfss://, file://"
        )
    parts = urlsplit(f"{known}://{rest}")
    if known == LOCAL:
        if parts.netloc not in ("", "localhost"):
            raise InvalidOption(f"{text} is on another machine", "file:///directory")
        return str(Path(unquote(parts.path)).resolve())
    if "@" in parts.netloc and known != AZURE:
        raise InvalidOption(
            f"a place at {known}:// has a login in it, which everybody would see",
            "give it in the environment, or with --store-options-file",
        )
    if known == AZURE and ("@" not in parts.netloc or ":" in parts.netloc):
        raise InvalidOption(
            f"{text} names no container and account",
            f"abfss://container@account{_AZURE_HOST}/orders",
        )
    key = parts.path.strip("/")
    if not parts.netloc or not key or parts.query or parts.fragment or "//" in key:
        raise InvalidOption(f"{text} is no place for a table", f"{known}://bucket/orders")
    return f"{known}://{parts.netloc}/{key}"


def is_local(place: str) -> bool:
    return "://" not in place


def scheme_of(place: str) -> str:
    return LOCAL if is_local(place) else place.partition("://")[0]


class Store(NamedTuple):
    """A place and how to get into it. Goes to tasks."""

    place: str
    options: StoreOptions = StoreOptions()

    @property
    def is_local(self) -> bool:
        return is_local(self.place)

    @property
    def uri(self) -> str:
        """`file:///…` also for a directory."""
        return Path(self.place).absolute().as_uri() if self.is_local else self.place

    @property
    def path(self) -> Path:
        assert self.is_local, f"{self.place} is no directory"
        return Path(self.place)

    def below(self, *names: str) -> "Store":
        return self._replace(place="/".join([self.place.rstrip("/"), *names]))

    def above(self) -> "Store":
        return self._replace(place=self.place.rpartition("/")[0])

    def filesystem(self) -> "tuple[FileSystem, str]":
        """pyarrow's own, and how it calls the place."""
        if self.is_local:
            from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 - an extra

            return LocalFileSystem(), str(self.path.absolute())
        parts = urlsplit(self.place)
        root = self._replace(place=f"{parts.scheme}://{parts.netloc}")
        bucket = parts.netloc.partition("@")[0]
        return _filesystem(root), f"{bucket}{parts.path}"

    def delta_options(self) -> dict[str, str] | None:
        """`storage_options` of delta-rs; None for a directory."""
        scheme = scheme_of(self.place)
        if scheme == LOCAL:
            return None
        told = self._filled()
        if scheme == S3 and "AWS_S3_LOCKING_PROVIDER" not in told:
            told.setdefault("AWS_CONDITIONAL_PUT", "etag")
        host = told.pop("STORAGE_EMULATOR_HOST", None)
        if host is not None:
            told.pop("GOOGLE_APPLICATION_CREDENTIALS", None)  # an emulator has no logins
            told["GOOGLE_SERVICE_ACCOUNT_KEY"] = json.dumps(
                {
                    "gcs_base_url": host,
                    "disable_oauth": True,
                    "client_email": "",
                    "private_key": "",
                    "private_key_id": "",
                }
            )
        endpoint = told.pop("AZURE_STORAGE_ENDPOINT", None)
        if endpoint is not None:
            told["AZURE_ENDPOINT"] = f"{endpoint}/{told['AZURE_STORAGE_ACCOUNT_NAME']}"
        if any(each and each.startswith("http://") for each in (
            told.get("AWS_ENDPOINT_URL"), host, endpoint
        )):  # fmt: skip
            told["ALLOW_HTTP"] = "true"
        return told

    def iceberg_properties(self) -> dict[str, str]:
        """Of pyiceberg's FileIO."""
        if self.is_local:
            return dict(_FILE_IO)
        self.into_environment()
        properties = {**_FILE_IO, **self.told_to("iceberg")}
        if scheme_of(self.place) == GCS:
            from tidelog.spark.tables.google_file_io import GoogleFileIO  # noqa: PLC0415 - an extra

            properties["py-io-impl"] = f"{GoogleFileIO.__module__}.{GoogleFileIO.__name__}"
        return properties

    def _filled(self) -> dict[str, str]:
        """The options, with what follows from others and from the place."""
        told = self.options.values
        if scheme_of(self.place) == S3 and "AWS_ENDPOINT_URL" in told:
            told.setdefault("AWS_REGION", REGION_ANYWHERE)
        if "://" not in told.get("STORAGE_EMULATOR_HOST", "://"):
            # Google's own libraries take host:port too.
            told["STORAGE_EMULATOR_HOST"] = f"http://{told['STORAGE_EMULATOR_HOST']}"
        if scheme_of(self.place) == AZURE:
            host = urlsplit(self.place).netloc.partition("@")[2]
            told.setdefault("AZURE_STORAGE_ACCOUNT_NAME", host.partition(".")[0])
        return told

    def told_to(self, library: str) -> dict[str, str]:
        names = NAMES[scheme_of(self.place)]
        told = self._filled().items()
        return {
            called: value
            for name, value in told
            if (called := getattr(names[name], library)) is not None
        }

    def into_environment(self) -> None:
        """pyarrow takes Google's credentials from nowhere else."""
        name = "GOOGLE_APPLICATION_CREDENTIALS"
        if name in self.options.values:
            os.environ[name] = self.options.values[name]

    def azure_endpoints(self) -> dict[str, str]:
        """Of an emulator, whose one address has accounts below it."""
        endpoint = self.options.values.get("AZURE_STORAGE_ENDPOINT")
        if endpoint is None:
            return {}
        parts = urlsplit(endpoint)
        names = {"authority": parts.netloc, "scheme": parts.scheme}
        return {
            f"{service}_storage_{name}": value
            for service in ("blob", "dfs")
            for name, value in names.items()
        }


@functools.lru_cache(maxsize=32)
def _filesystem(root: Store) -> "FileSystem":
    """Of a bucket or a container. Its connections are used again by the same process."""
    from pyarrow import fs  # noqa: PLC0415 - an extra

    scheme = scheme_of(root.place)
    given = root.told_to("arrow")
    if scheme == S3:
        return fs.S3FileSystem(**_truths(given, "force_virtual_addressing"))
    if scheme == AZURE:
        return fs.AzureFileSystem(**given, **root.azure_endpoints())
    root.into_environment()
    return google_filesystem(given.get("endpoint_override"))


def google_filesystem(emulator: str | None) -> "FileSystem":
    """As tasks write and pyiceberg commits. An emulator has no logins."""
    from pyarrow.fs import GcsFileSystem  # noqa: PLC0415 - an extra

    if emulator is None:
        return GcsFileSystem(retry_time_limit=GOOGLE_TRIES_FOR)
    parts = urlsplit(emulator)
    return GcsFileSystem(
        anonymous=True,
        scheme=parts.scheme,
        endpoint_override=parts.netloc,
        retry_time_limit=GOOGLE_TRIES_FOR,
    )


@contextmanager
def told(store: Store, doing: str) -> Iterator[None]:
    """What the libraries say of a store, as one line of ours without secrets."""
    try:
        yield
    except TidelogError:
        raise
    except Exception as error:  # each library has errors of its own, and pyarrow has OSError
        if store.is_local:
            raise
        words = plain(store.options.without_secrets(str(error)))
        raise TidelogError(
            f"{doing} {store.place}: {type(error).__name__}: {words}",
            ADVICE[scheme_of(store.place)],
        ) from None


def plain(words: str) -> str:
    """One line. delta-rs paints the arrows between the causes of an error, and obstore repeats it
    for programmers."""
    said, _, _ = words.partition("Debug source:")
    return " ".join(_CAUSED_BY.sub(": ", said).split())[:WORDS_MAX]


_CAUSED_BY: Final = re.compile(r"\s*(?:\x1b\[\d*m)?↳(?:\x1b\[\d*m)?\s*")
WORDS_MAX: Final = 600
"""Google's library begins with much that is always the same."""
ADVICE: Final = {
    S3: "check the bucket, AWS_ACCESS_KEY_ID, AWS_REGION and AWS_ENDPOINT_URL",
    GCS: "check the bucket and GOOGLE_APPLICATION_CREDENTIALS",
    AZURE: "check the container and AZURE_STORAGE_ACCOUNT_KEY, or the other AZURE_… options",
}


def _truths(given: dict[str, str], *names: str) -> dict[str, Any]:
    return {name: text.lower() == "true" if name in names else text for name, text in given.items()}
