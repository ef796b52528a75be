"""`--to`, `--format` and what says how to get there: stores and catalogs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tidelog.cli.asking import read_properties_file
from tidelog.cli.failure import USAGE, CommandError
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import is_local, located, scheme_of
from tidelog.spark.tables.words import DELTA, FORMS, ICEBERG, PARQUET, CatalogTable, TableSpec

PLACES = "lake/orders, s3://bucket/orders, gs://… or abfss://…"


def reaches_table(function: Any) -> Any:
    """How to get to a table of which it is known where it is."""
    for option in reversed(REACH_OPTIONS):
        function = option(function)
    return function


def names_table(function: Any) -> Any:
    """Where the table is and of which form, for `table_of`."""
    for option in reversed(TABLE_OPTIONS):
        function = option(function)
    return function


REACH_OPTIONS = (
    click.option(
        "--store-option",
        "store_option",
        multiple=True,
        metavar="NAME=VALUE",
        help="How to get into the store, if the environment does not say it: AWS_REGION=eu-west-1; "
        "again and again.",
    ),
    click.option(
        "--store-options-file",
        "store_options_file",
        metavar="FILE",
        help="The same from a file, one in a line: for secrets.",
    ),
    click.option(
        "--catalog",
        "catalog",
        metavar="NAME|URI",
        help="Of an Iceberg table: a name in .pyiceberg.yaml, or http://…, postgresql+…://…",
    ),
    click.option(
        "--catalog-option",
        "catalog_option",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any property of pyiceberg for the catalog; again and again.",
    ),
)
TABLE_OPTIONS = (
    click.option(
        "--to", "to", required=True, metavar="PLACE", help="Where the table lies: a directory, "
        "or s3://bucket/orders, gs://…, abfss://…",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default=DELTA,
        show_default=True,
        help="What kind of table.",
    ),
    *REACH_OPTIONS,
    click.option("--table", "table", metavar="NAMESPACE.NAME", help="How the catalog calls it."),
)  # fmt: skip


def table_of(given: dict[str, Any], columns: tuple[str, ...]) -> TableSpec:
    """TidelogError or CommandError, if there can be no such table."""
    place = located(given["to"])
    if is_local(place) and Path(place).exists() and not Path(place).is_dir():
        raise CommandError(
            f"wrong value for --to: {given['to']}",
            why="a table is a directory, or a place in an object store",
            advice=f"--to {PLACES}",
            code=USAGE,
        )
    options = store_options(scheme_of(place), given_store_options(given))
    spec = TableSpec(place, given["form"], columns, options, catalog_of(given))
    check_form(spec)
    return spec


def given_store_options(given: Mapping[str, Any]) -> dict[str, str]:
    return {
        **read_properties_file(given["store_options_file"], "AWS_REGION=eu-west-1"),
        **pairs("--store-option", given["store_option"]),
    }


def catalog_of(given: dict[str, Any]) -> CatalogTable | None:
    if given["catalog"] is None:
        if given["table"] is None and not given["catalog_option"]:
            return None
        raise CommandError(
            "--table and --catalog-option are for a catalog",
            why="no --catalog is given",
            advice="--catalog NAME|URI --table namespace.name",
            code=USAGE,
        )
    if given["form"] != ICEBERG or given["table"] is None:
        raise CommandError(
            "--catalog, --table and --format iceberg belong together",
            why="a catalog knows Iceberg tables by their names",
            advice="--format iceberg --catalog NAME|URI --table namespace.name",
            code=USAGE,
        )
    options = tuple(pairs("--catalog-option", given["catalog_option"]).items())
    return CatalogTable(given["catalog"], given["table"], options)


def check_form(spec: TableSpec) -> None:
    """What a form cannot do is told before Spark is started."""
    if spec.form == ICEBERG:
        from tidelog.spark.tables.catalogs import check_catalog

        check_catalog(spec)
    elif spec.form == PARQUET:
        from tidelog.spark.tables.forms import open_table

        open_table(spec)


def table_arguments(spec: TableSpec) -> dict[str, Any]:
    """What a checkpoint belongs to. No secrets, and nothing that may change: keys and endpoints."""
    told: dict[str, Any] = {
        "to": spec.path,
        "format": spec.form,
        "partition_by": list(spec.partition_by),
    }
    if spec.catalog is not None:
        from tidelog.spark.tables.catalogs import shown

        told["catalog"] = shown(spec.catalog.catalog)
        told["table"] = spec.catalog.table
    return told


def place_of(spec: TableSpec) -> dict[str, Any]:
    """Those of its arguments that say which table it is."""
    told = table_arguments(spec)
    return {name: told[name] for name in ("to", "table") if name in told}


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The texts are not repeated in an error: they may be secrets."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(
                f"wrong value for {option}",
                why="it is a name, an equals sign and a value",
                advice=f"{option} NAME=VALUE",
                code=USAGE,
            )
        found[name.strip()] = value.strip()
    return found
