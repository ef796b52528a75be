"""Which catalog an Iceberg table is in: a SQLite file in its directory, or one that others use too.

What a catalog is called and needs to be told is pyiceberg's matter: a name in `.pyiceberg.yaml`, or
the URI of a REST, SQL or Hive catalog, and properties under pyiceberg's names.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.tables.store_options import AZURE, HIDDEN
from tidelog.spark.tables.stores import is_local, plain, scheme_of
from tidelog.spark.tables.words import TableSpec

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NotInstalledError
except ImportError:
    raise TidelogError(
        "Iceberg tables need the package pyiceberg", "pip install 'tidelog[iceberg]'"
    ) from None

CATALOG_FILE = "catalog.db"
OWN_NAME = ("tidelog", "records")
"""Of the only table in a catalog of our own."""

Name = tuple[str, ...]


def table_name(spec: TableSpec) -> Name:
    if spec.catalog is None:
        return OWN_NAME
    return tuple(spec.catalog.table.split("."))


@contextmanager
def open_catalog(spec: TableSpec) -> Iterator[Catalog]:
    catalog = _own(spec) if spec.catalog is None else _others(spec)
    try:
        yield catalog
    finally:
        catalog.close()


def has_catalog(spec: TableSpec) -> bool:
    """Looking must not make one."""
    return spec.catalog is not None or (spec.store.path / CATALOG_FILE).exists()


def check_catalog(spec: TableSpec) -> None:
    if scheme_of(spec.path) == AZURE:
        raise InvalidOption(
            f"an Iceberg table cannot lie at {spec.path}: pyiceberg 0.12 takes the account for"
            " a part of the container's name",
            "--format delta, or another store",
        )
    if spec.catalog is None:
        if not is_local(spec.path):
            raise InvalidOption(
                f"the Iceberg table at {spec.path} needs a catalog: a file cannot be locked there",
                "--catalog NAME|URI and --table namespace.name",
            )
        return
    name = table_name(spec)
    if len(name) < 2 or not all(name):
        raise InvalidOption(
            f"{spec.catalog.table!r} names no table of a catalog", "--table namespace.name"
        )


def _own(spec: TableSpec) -> SqlCatalog:
    directory = spec.store.path.absolute()
    uri = f"sqlite:///{directory / CATALOG_FILE}"
    return SqlCatalog(OWN_NAME[0], uri=uri, warehouse=directory.as_uri())


def _others(spec: TableSpec) -> Catalog:
    assert spec.catalog is not None, spec
    given: dict[str, Any] = {**spec.store.iceberg_properties(), **dict(spec.catalog.options)}
    name = spec.catalog.catalog
    if "://" in name:
        given["uri"] = name
        name = "tidelog"
    try:
        if _GLUE_RETRIES in given:
            given[_GLUE_RETRIES] = int(given[_GLUE_RETRIES])
        return load_catalog(name, **given)
    except NotInstalledError as missing:
        what, _, command = str(missing).partition(": ")
        raise TidelogError(f"the catalog cannot be opened: {what}", command) from None
    except Exception as error:  # of pyiceberg, of SQLAlchemy, of HTTP, of boto
        raise TidelogError(
            f"the catalog cannot be opened: {said(spec, error)}",
            _ADVICE.get(type(error).__name__, _ADVICE_FOR_ALL),
        ) from None


_GLUE_RETRIES = "glue.max-retries"
"""pyiceberg 0.12 hands it to boto3 as it is, which compares it with a number."""
_ADVICE_FOR_ALL = "check --catalog and --catalog-option, and the catalog's part of .pyiceberg.yaml"
_ADVICE = {"NoRegionError": "--catalog-option glue.region=eu-west-1, or AWS_DEFAULT_REGION"}
"""By the names of errors whose package may be absent. boto3 does not look at AWS_REGION."""


def said(spec: TableSpec, error: Exception) -> str:
    """What a library said, without what it was told of secrets."""
    words = spec.options.without_secrets(str(error))
    assert spec.catalog is not None, spec
    for name, value in spec.catalog.options:
        if value and is_secret(name):
            words = words.replace(value, HIDDEN)
    words = words.replace(spec.catalog.catalog, shown(spec.catalog.catalog))
    return f"{type(error).__name__}: {plain(words)}"


def is_secret(name: str) -> bool:
    return any(
        each in name.lower() for each in ("secret", "token", "key", "credential", "password")
    )


def shown(catalog: str) -> str:
    """The URI of a catalog without its password."""
    scheme, mark, rest = catalog.partition("://")
    login, at, place = rest.partition("@")
    if not mark or not at or ":" not in login:
        return catalog
    return f"{scheme}://{login.partition(':')[0]}:{HIDDEN}@{place}"
