"""`df.write.format("tidelog").save()` appends, as with the stock connector.

Without a mode, Spark asks for a table that must not exist yet, and refuses that for every Python
source before the source hears of it. So the writer of this process is taught to say "append" then:
nothing has been written when Spark refuses. Overwriting is refused as ever.
"""

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSAL = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
WITHOUT_MODE = "ErrorIfExists"
_MARK = "_tidelog_appends"


def append_without_mode(spark: "SparkSession") -> None:
    """For all writers of this process that are of the kind that the session has."""
    kind = type(spark.range(0).write)
    if hasattr(kind, _MARK):
        return
    save = kind.save

    @wraps(save)
    def save_or_append(writer: Any, *arguments: Any, **options: Any) -> None:
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - pyspark is an extra

        try:
            save(writer, *arguments, **options)
        except AnalysisException as error:
            if not _lacks_mode(error):
                raise
            save(writer.mode("append"), *arguments, **options)

    kind.save = save_or_append  # type: ignore[assignment,method-assign]
    setattr(kind, _MARK, True)


def _lacks_mode(error: Any) -> bool:
    from tidelog.spark.data_source import NAME  # noqa: PLC0415

    if error.getCondition() != REFUSAL:
        return False
    said = error.getMessageParameters() or {}
    return NAME in said.get("source", "") and WITHOUT_MODE in said.get("createMode", "")
