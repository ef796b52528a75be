"""`tidelog pipeline archive`"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.pipeline.launching import Job, Launch, launch_job, runs_pipeline, spoken
from tidelog.cli.pipeline.table_options import (
    names_table,
    place_of,
    table_arguments,
    table_of,
)
from tidelog.cli.pipeline.topic_check import Looked, check_topics, look_at, names_topics
from tidelog.spark.dead_letter_words import ACTIONS, DEAD_LETTER, STOP, SUFFIX
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines import archive as pipeline
from tidelog.spark.pipelines.dead_letter_topics import make_topics
from tidelog.spark.pipelines.names import UsualName
from tidelog.spark.pipelines.topics import EARLIEST, LATEST, SchemaValues, Topics, stream_of
from tidelog.spark.schema_words import GROWN, WITH_REGISTRY
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import TableSpec
from tidelog.spark.topics import compiled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipelines.state import PipelineState


VALUE_OPTIONS = (
    click.option(
        "--max-records",
        type=click.IntRange(min=1),
        metavar="N",
        help="At most so many in a batch.",
    ),
    click.option(
        "--value-format",
        type=click.Choice(["binary", "json", *WITH_REGISTRY]),
        default="binary",
        show_default=True,
        help="json: values get the fields of --schema; the last three: of schemas in --registry.",
    ),
    click.option("--registry", metavar="URL", help="Of schemas: http://host:8081."),
    click.option(
        "--subject",
        "subjects",
        multiple=True,
        metavar="NAME",
        help="In the registry, again and again; TOPIC-value of each topic if not given.",
    ),
    click.option(
        "--schema", metavar="DDL", help='Of values that are JSON: "id BIGINT, name STRING".'
    ),
    click.option(
        "--on-bad-record",
        type=click.Choice(ACTIONS),
        default=STOP,
        show_default=True,
        help="What becomes of a record whose value is not of its format.",
    ),
    click.option(
        "--dead-letter-topic", metavar="TOPIC", help=f"Where they go; TOPIC{SUFFIX} if not given."
    ),
)


def value_options(function: Any) -> Any:
    """How values are read, and what becomes of those that cannot be."""
    for option in reversed(VALUE_OPTIONS):
        function = option(function)
    return function


@click.command(name="archive")
@names_topics
@names_table
@click.option(
    "--partition-by",
    metavar="COLUMN,…",
    default="",
    help="topic, partition, date or hour (of the timestamp, in UTC).",
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
@click.option("--append", is_flag=True, help="Begin in a table that has rows already.")
@runs_pipeline
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, asking: Asking, launch: Launch, **given: Any) -> None:
    """Keep topics as a table: every committed record is one row, exactly once.

    \b
    Examples:
      tidelog pipeline archive orders --to lake/orders --once
      tidelog pipeline archive orders payments --to lake/all --partition-by topic,date
      tidelog pipeline archive orders --to lake/orders --format iceberg
      tidelog pipeline archive --pattern 'orders-.*' --to lake/all --partition-by topic
      tidelog pipeline archive orders --to lake/orders --value-format avro \\
        --registry http://localhost:8081
      tidelog pipeline archive orders --to s3://lake/orders --store-options-file s3.properties
      tidelog pipeline archive orders --to s3://lake/orders --format iceberg \\
        --catalog http://localhost:8181 --table shop.orders
      tidelog pipeline archive orders --to lake/orders --value-format json --schema "id BIGINT" \\
        --on-bad-record dead-letter

    Goes on until Ctrl-C unless --once is given, and where it was when it is started again.
    """
    table = check_given(given)
    looked = look_at(asking, given["topics"], given["pattern"])
    if given["registry"] is not None:
        with spoken():
            value_type(table, looked, given)  # a wrong schema is told before Spark is started
    bad = pipeline.BadRecords(given["on_bad_record"], given["dead_letter_topic"], looked.access)
    archive = pipeline.Archive(table, given["append"], bad, given["registry"] is not None)
    job = make_job(asking, looked, archive, given)
    context.exit(launch_job(launch, job, given["output"]))


def check_given(given: dict[str, Any]) -> TableSpec:
    """What can be judged without asking anybody."""
    check_topics(given)
    columns = tuple(each.strip() for each in given["partition_by"].split(",") if each.strip())
    with spoken():
        pipeline.check_partition_by(columns)
        table = table_of(given, columns)
    check_values(given)
    return table


def check_values(given: dict[str, Any]) -> None:
    """How values are read, and what becomes of those that cannot be."""
    if (given["value_format"] == "json") != (given["schema"] is not None):
        raise CommandError(
            "--value-format json and --schema belong together",
            why="only values that are JSON have a schema, and they need one",
            advice='--value-format json --schema "id BIGINT, name STRING"',
            code=USAGE,
        )
    check_registry(given)
    check_bad_records(given)


def check_registry(given: dict[str, Any]) -> None:
    if given["registry"] is not None and given["pattern"] is not None and not given["subjects"]:
        raise CommandError(
            "--registry with --pattern needs --subject",
            why="the subjects of topics that come later are not known",
            advice="--subject orders-value",
            code=USAGE,
        )
    if (given["value_format"] in WITH_REGISTRY) == (given["registry"] is not None):
        return
    raise CommandError(
        "--registry and a --value-format with schemas belong together",
        why=f"the format is {given['value_format']}; with schemas are {', '.join(WITH_REGISTRY)}",
        advice="--value-format avro --registry http://host:8081",
        code=USAGE,
    )


def value_type(table: TableSpec, looked: Looked, given: dict[str, Any]) -> "pa.DataType":
    subjects = given["subjects"] or tuple(f"{each}-value" for each in looked.names)
    return pipeline.value_type(table, given["registry"], given["value_format"], subjects)


def check_bad_records(given: dict[str, Any]) -> None:
    action, topic = given["on_bad_record"], given["dead_letter_topic"]
    if topic is not None and action != DEAD_LETTER:
        raise CommandError(
            "--dead-letter-topic is for dead letters",
            why=f"--on-bad-record is {action}",
            advice=f"--on-bad-record {DEAD_LETTER}",
            code=USAGE,
        )
    if action == DEAD_LETTER and given["pattern"] is not None:
        check_letters_of_pattern(given["pattern"], topic)
    if action != STOP and given["value_format"] == "binary":
        raise CommandError(
            f"--on-bad-record {action} has nothing to do",
            why="values are kept as they are, so none is bad",
            advice="give a --value-format, or leave it out",
            code=USAGE,
        )


def check_letters_of_pattern(pattern: str, topic: str | None) -> None:
    """Dead letters that are read themselves would have dead letters, without an end."""
    if topic is not None and not compiled(pattern).fullmatch(topic):
        return
    raise CommandError(
        "--pattern needs a --dead-letter-topic that it does not match",
        why=f"it matches {topic}, which would be read again"
        if topic is not None
        else "topics that come later have no topic for theirs",
        advice="--dead-letter-topic dead-letters",
        code=USAGE,
    )


def make_letter_topics(asking: Asking, looked: Looked, bad: pipeline.BadRecords) -> None:
    """Topics of dead letters are there before the first letter."""
    if bad.action == DEAD_LETTER:
        with spoken():
            asking.located().run(lambda client: make_topics(client, looked.topics, bad.topic))


def make_job(
    asking: Asking, looked: Looked, archive: pipeline.Archive, given: dict[str, Any]
) -> Job:
    def start(spark: "SparkSession", state: "PipelineState", launch: Launch) -> "StreamingQuery":
        values = None
        if given["registry"] is not None:
            kind = value_type(archive.table, looked, given)
            values = SchemaValues(given["registry"], given["value_format"], kind)
        topics = Topics(
            looked.access,
            looked.names,
            given["starting"],
            given["max_records"],
            f"pipeline-{state.name}",
            given["schema"],
            archive.bad.action != STOP,
            values,
            looked.pattern,
        )
        return pipeline.start(stream_of(spark, topics), archive, state, launch.pace)

    table = archive.table
    arguments = {
        "cluster_id": looked.cluster_id,
        **looked.arguments(),
        **table_arguments(table),
        "schema": given["schema"],
    }
    if given["registry"] is not None:
        arguments["value_format"] = given["value_format"]

    def again(error: TidelogError) -> bool:
        return GROWN in error.what

    def check(state: "PipelineState") -> None:
        pipeline.check_history(open_table(table), archive, state)
        make_letter_topics(asking, looked, archive.bad)

    name = UsualName(pipeline.KIND, looked.sources, place_of(table))
    return Job(name, arguments, given["to"], looked.access, start, again, check)


def local_directory(text: str) -> str:
    """Whole, because the workers of Spark run elsewhere."""
    path = Path(text)
    if "://" in text or (path.exists() and not path.is_dir()):
        raise CommandError(
            f"wrong value for --to: {text}",
            why="tables are written to directories of this machine, or of one that it mounts",
            advice="--to lake/orders",
            code=USAGE,
        )
    return str(path.resolve())
