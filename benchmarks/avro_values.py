"""How fast Avro values become columns: field by field, and one value after the other.

    python benchmarks/avro_values.py

The values are the events of examples/ride-lakehouse, in both versions of their schema, and pieces
have as many as Spark's tasks decode at once. Best of several rounds, in values per second of
processor time. Both ways have to give the same columns.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pyarrow as pa

from tidelog.registry.languages.words import Schema
from tidelog.spark.registry_values import RegistryValues, ValueReader, client_of
from tidelog.spark.value_languages import WriterSchema

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "ride-lakehouse"))
import rides

PIECE = 25_000
ROUNDS = 5
REGISTRY = "http://localhost:9"
"""Nobody asks it: both schemas are known."""


def values(count: int) -> pa.Array:
    events = rides.make_events(rides.Size(rate=count, seconds=1))
    encoders = {version: rides.AvroValues(version, version) for version in rides.SCHEMAS}
    versions = events.version.tolist()
    rows = zip(rides.as_records(events), versions, strict=True)
    return pa.array([encoders[version](row) for row, version in rows], pa.binary())


def best(decode: Callable[[pa.Array], pa.Array], raw: pa.Array) -> tuple[float, pa.Array]:
    rates = []
    for _ in range(ROUNDS):
        began = process_time()
        made = [decode(raw[at : at + PIECE]) for at in range(0, len(raw), PIECE)]
        rates.append(len(raw) / (process_time() - began))
    return max(rates), pa.concat_arrays(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--values", type=int, default=300_000)
    count = parser.parse_args().values
    client = client_of(REGISTRY)
    for version, schema in rides.SCHEMAS.items():
        client._known[version] = Schema("AVRO", json.dumps(schema), ())
    asked = RegistryValues(REGISTRY, "avro")
    kind = WriterSchema(client._known[max(rides.SCHEMAS)], lambda _: "").type
    raw = values(count)
    reader = ValueReader(asked, kind)
    together, columns = best(lambda piece: asked.decoded(piece, kind, {}), raw)
    one_by_one, slow = best(lambda piece: reader.one_by_one(piece, {}), raw)
    if not columns.equals(slow):
        raise SystemExit("the two ways do not give the same columns")
    size = sum(len(value.as_buffer()) for value in raw) / len(raw)
    print(f"{len(raw):,} values of {size:.0f} bytes")
    print(f"field by field   {together:12,.0f} values/s")
    print(f"one by one       {one_by_one:12,.0f} values/s")


if __name__ == "__main__":
    main()
