"""A plain directory of Parquet files, right for any reader: no log of Spark's has to be known.

Tasks write below `_tidelog`, which readers of Parquet skip. A commit writes one small file, the
manifest of the query, that names the batch and its files: from then on the batch counts. Then
the files are moved to where they are read. A batch that comes again finds its manifest, moves
what was not moved yet, and writes nothing. Readers may see a batch file by file, never twice.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.layouts import OURS, staged
from tidelog.spark.tables.schemas import check_columns, check_partitioning
from tidelog.spark.tables.words import BatchFiles, BatchId, Replacement, TableFile, TableSpec

SHAPE_FILE = "shape.json"
SCHEMA_FILE = "schema.parquet"
MANIFEST = ".manifest.json"


class ParquetForm:
    __slots__ = ("_ours", "_path", "_spec")

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._path = spec.store.path
        self._ours = self._path / OURS

    def exists(self) -> bool:
        return (self._ours / SHAPE_FILE).exists()

    def schema(self) -> pa.Schema | None:
        return pq.read_schema(self._ours / SCHEMA_FILE) if self.exists() else None

    def grow(self, schema: pa.Schema) -> None:
        """Files stay as they are: readers that merge schemas find null in the older ones."""
        temporary = self._ours / f"{SCHEMA_FILE}.new"
        pq.write_table(schema.empty_table(), temporary)
        temporary.replace(self._ours / SCHEMA_FILE)

    def prepare(self, schema: pa.Schema) -> None:
        if not self.exists():
            if self._path.exists() and any(each.name != OURS for each in self._path.iterdir()):
                raise TidelogError(
                    f"{self._path} is not empty, and what is in it is not ours",
                    "write to another directory",
                )
            self._ours.mkdir(parents=True, exist_ok=True)
            pq.write_table(schema.empty_table(), self._ours / SCHEMA_FILE)
            replace(self._ours / SHAPE_FILE, {"partition_by": list(self._spec.partition_by)})
        shape = json.loads((self._ours / SHAPE_FILE).read_text("utf-8"))
        check_columns(self._spec.path, schema, pq.read_schema(self._ours / SCHEMA_FILE))
        there = tuple(shape["partition_by"])
        check_partitioning(self._spec.path, self._spec.partition_by, there)
        for manifest in self._ours.glob(f"*{MANIFEST}"):
            self._carry_out(json.loads(manifest.read_text("utf-8")))

    def is_empty(self) -> bool:
        return not self.active_files()

    def last_batch(self, query: str) -> int | None:
        last = self._decided(query)
        return None if last is None else int(last["batch"])

    def commit(self, schema: pa.Schema, done: BatchFiles) -> bool:
        if not self.exists():
            self.prepare(schema)
        query, number = done.batch
        manifest = self._ours / f"{query}{MANIFEST}"
        last = self._decided(query)
        if last is not None and last["batch"] >= number:
            self._carry_out(last)
            return False
        decided = {"query": query, "batch": number, "files": [each.name for each in done.files]}
        replace(manifest, decided)
        self._carry_out(decided)
        return True

    def replace(self, done: Replacement) -> bool:
        raise TidelogError(
            f"the table at {self._path} is a plain directory of Parquet files",
            "--format delta or iceberg: readers of those see files replaced as a whole",
        )

    def files(self) -> list[TableFile]:
        return [
            TableFile(each, each, Path(each).stat().st_size, 0, ()) for each in self.active_files()
        ]

    def active_files(self) -> list[str]:
        if not self._path.exists():
            return []
        found = self._path.rglob("*.parquet")
        return sorted(str(each) for each in found if OURS not in each.parts)

    def _decided(self, query: str) -> dict[str, Any] | None:
        manifest = self._ours / f"{query}{MANIFEST}"
        if not manifest.exists():
            return None
        decided: dict[str, Any] = json.loads(manifest.read_text("utf-8"))
        return decided

    def _carry_out(self, decided: dict[str, Any]) -> None:
        """Move what is still staged; what other attempts left there goes."""
        directory = staged(self._spec, BatchId(decided["query"], decided["batch"])).path
        for name in decided["files"]:
            if (directory / name).exists():
                (self._path / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).rename(self._path / name)
        shutil.rmtree(directory, ignore_errors=True)


def replace(path: Path, document: dict[str, Any]) -> None:
    """The old content or the new one, whatever happens."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
