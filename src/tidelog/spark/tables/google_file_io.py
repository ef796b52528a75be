"""How pyiceberg gets into Google's store: by the same file system as our tasks.

pyiceberg 0.12 hands `gcs.service.host` to pyarrow, which then looks for a login all the same. An
emulator has none, and pyarrow looks for a quarter of an hour.
"""

from typing import TYPE_CHECKING

from pyiceberg.io import GCS_SERVICE_HOST
from pyiceberg.io.pyarrow import PyArrowFileIO

from tidelog.spark.tables.stores import google_filesystem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class GoogleFileIO(PyArrowFileIO):
    def _initialize_gcs_fs(self) -> "FileSystem":
        return google_filesystem(self.properties.get(GCS_SERVICE_HOST))
