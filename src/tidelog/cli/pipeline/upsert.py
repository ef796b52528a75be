"""`tidelog pipeline upsert`"""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.durations import DURATION
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.pipeline.archive import (
    check_values,
    make_letter_topics,
    value_options,
)
from tidelog.cli.pipeline.launching import Job, Launch, launch_job, runs_pipeline, spoken
from tidelog.cli.pipeline.table_options import (
    names_table,
    place_of,
    table_arguments,
    table_of,
)
from tidelog.cli.pipeline.topic_check import Looked, check_topics, look_at, names_topics
from tidelog.spark.changes.words import (
    BUCKET,
    BUCKETS,
    CHANGE_FORMATS,
    DEBEZIUM,
    PLAIN,
    ChangeRules,
)
from tidelog.spark.dead_letter_words import STOP
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines import upsert as pipeline
from tidelog.spark.pipelines.archive import Archive, BadRecords, check_history
from tidelog.spark.pipelines.names import UsualName
from tidelog.spark.pipelines.topics import (
    EARLIEST,
    LATEST,
    SchemaValues,
    Topics,
    debezium_fields,
    stream_of,
)
from tidelog.spark.schema_words import GROWN
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import OVERTAKEN, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipelines.state import PipelineState


@click.command(name="upsert")
@names_topics
@names_table
@click.option(
    "--change-format",
    type=click.Choice(CHANGE_FORMATS),
    default=PLAIN,
    show_default=True,
    help="plain: a value is the row, none is its end; debezium: values are change events.",
)
@click.option(
    "--key",
    metavar="COLUMN,…",
    default="",
    help="Which row a change is about; the key of the record if not given.",
)
@click.option(
    "--order-by",
    metavar="COLUMN,…",
    default="",
    help="Which change is later; if not given, what the event says of its source, or the offset.",
)
@click.option(
    "--buckets",
    type=click.IntRange(1, 4096),
    default=BUCKETS,
    show_default=True,
    help="Into how many parts keys are hashed. A part with a change is written anew.",
)
@click.option(
    "--keep-deleted",
    "keep_deleted_ms",
    type=DURATION,
    default="7d",
    show_default=True,
    help="How long a late change cannot bring a deleted row back.",
)
@click.option(
    "--from",
    "starting",
    type=click.Choice([EARLIEST, LATEST]),
    default=EARLIEST,
    show_default=True,
    help="Where the very first batch begins.",
)
@value_options
@runs_pipeline
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, asking: Asking, launch: Launch, **given: Any) -> None:
    """Keep what topics have led to as a table: one row per key, its last value, exactly once.

    \b
    Examples:
      tidelog pipeline upsert customers --to lake/customers --once
      tidelog pipeline upsert customers --to lake/customers --value-format json \\
        --schema "id BIGINT, name STRING, changed BIGINT" --key id --order-by changed
      tidelog pipeline upsert shop.public.orders --to lake/orders --change-format debezium \\
        --key id --value-format json --schema "id BIGINT, total DECIMAL"
      tidelog pipeline upsert shop.public.orders --to lake/orders --change-format debezium \\
        --format iceberg --value-format avro --registry http://localhost:8081

    Goes on until Ctrl-C unless --once is given, and where it was when it is started again.
    """
    table, rules = check_given(given)
    looked = look_at(asking, given["topics"], given["pattern"])
    if given["registry"] is not None:
        with spoken():
            _value_type(looked, given)  # a wrong schema is told before Spark is started
    bad = BadRecords(given["on_bad_record"], given["dead_letter_topic"], looked.access)
    job = make_job(asking, looked, Target(table, rules, bad), given)
    context.exit(launch_job(launch, job, given["output"]))


class Target(NamedTuple):
    table: TableSpec
    rules: ChangeRules
    bad: BadRecords


def check_given(given: dict[str, Any]) -> tuple[TableSpec, ChangeRules]:
    """What can be judged without asking anybody."""
    check_topics(given)
    rules = ChangeRules(
        given["change_format"], _names(given["key"]), _names(given["order_by"]), given["buckets"]
    )
    with spoken():
        pipeline.check_rules(rules, given["value_format"])
        table = table_of(given, (BUCKET,))
        pipeline.check_form(table)
    check_values(given)
    return table, rules


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _value_type(looked: Looked, given: dict[str, Any]) -> Any:
    from tidelog.spark.registry_values import type_of_subjects

    subjects = given["subjects"] or tuple(f"{each}-value" for each in looked.names)
    return type_of_subjects(given["registry"], given["value_format"], subjects)


def make_job(asking: Asking, looked: Looked, target: Target, given: dict[str, Any]) -> Job:
    table, rules, bad = target

    def start(spark: "SparkSession", state: "PipelineState", launch: Launch) -> "StreamingQuery":
        from tidelog.spark.upsert_sink import Upsert

        fields, values = given["schema"], None
        if fields is not None and rules.form == DEBEZIUM:
            fields = debezium_fields(fields)
        if given["registry"] is not None:
            kind = _value_type(looked, given)
            values = SchemaValues(given["registry"], given["value_format"], kind)
        topics = Topics(
            looked.access,
            looked.names,
            given["starting"],
            given["max_records"],
            f"pipeline-{state.name}",
            fields,
            bad.action != STOP,
            values,
            looked.pattern,
        )
        upsert = Upsert(table, rules, given["keep_deleted_ms"])
        return pipeline.start(stream_of(spark, topics), upsert, bad, state, launch.pace)

    arguments = {
        "cluster_id": looked.cluster_id,
        **looked.arguments(),
        **table_arguments(table),
        "change_format": rules.form,
        "key": list(rules.key),
        "order_by": list(rules.order_by),
        "buckets": rules.buckets,
        "value_format": given["value_format"],
    }

    def again(error: TidelogError) -> bool:
        return GROWN in error.what or OVERTAKEN in error.what

    def check(state: "PipelineState") -> None:
        check_history(open_table(table), Archive(table), state)
        make_letter_topics(asking, looked, bad)

    name = UsualName(pipeline.KIND, looked.sources, place_of(table))
    return Job(name, arguments, given["to"], looked.access, start, again, check)
