"""WebHDFS, as far as Spark asks for it: what Hadoop's client sends for files of a checkpoint.

No answer says what type it has. Hadoop's client would look at that with a class that PySpark's
jars lack.
"""

import json
import secrets
from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.spark.checkpoint_store.files import CheckpointFiles, Status
from tidelog.spark.failure import TidelogError

ROOT: Final = "/webhdfs/v1"
BLOCK_BYTES: Final = 128 * 1024 * 1024
SEND_DATA: Final = "senddata"
"""HDFS sends clients to another machine with the data of a file; we send them to ourselves."""
ERRORS: Final[dict[type[Exception], tuple[int, str]]] = {
    FileNotFoundError: (404, "java.io.FileNotFoundException"),
    FileExistsError: (403, "org.apache.hadoop.fs.FileAlreadyExistsException"),
    PermissionError: (403, "org.apache.hadoop.security.AccessControlException"),
    NotImplementedError: (400, "java.lang.UnsupportedOperationException"),
    TidelogError: (500, "java.io.IOException"),
}

Answer = dict[str, Any] | bytes | None
Serve = Callable[[CheckpointFiles, str, dict[str, str], bytes], Answer]


def make_app(checkpoints: dict[str, CheckpointFiles]) -> Starlette:
    """Each checkpoint is below a secret of its own, as its first directory."""

    async def serve(request: Request) -> Response:
        given = {name.lower(): value for name, value in request.query_params.items()}
        operation = given.get("op", "").upper()
        if operation == "CREATE" and SEND_DATA not in given:
            there = f"{request.url}&{SEND_DATA}=true"
            return Response(status_code=307, headers={"location": there})
        secret, _, path = request.path_params["path"].strip("/").partition("/")
        try:
            answer = await run_in_threadpool(
                _served, _of(checkpoints, secret), operation, path, given, await request.body()
            )
        except tuple(ERRORS) as error:
            return refusal(error)
        return said(answer, 201 if operation == "CREATE" else 200)

    return Starlette(routes=[Route(ROOT + "{path:path}", serve, methods=["GET", "PUT", "DELETE"])])


def _of(checkpoints: dict[str, CheckpointFiles], given: str) -> CheckpointFiles | None:
    """None for what is above all of them."""
    for secret, files in checkpoints.items():
        if secrets.compare_digest(secret.encode(), given.encode()):
            return files
    return None


def _served(
    files: CheckpointFiles | None, operation: str, path: str, given: dict[str, str], body: bytes
) -> Answer:
    if operation in ABOUT_ALL:
        return ABOUT_ALL[operation]
    if operation not in OPERATIONS:
        raise NotImplementedError(f"{operation} is not served for checkpoints")
    if files is None:
        raise PermissionError("no such checkpoint")
    return OPERATIONS[operation](files, path, given, body)


def said(answer: Answer, code: int) -> Response:
    data = b"" if answer is None else answer
    return Response(data if isinstance(data, bytes) else json.dumps(data).encode(), code)


def refusal(error: Exception) -> Response:
    """The whole line of ours: Spark shows the message of an IOException."""
    code, name = next(each for kind, each in ERRORS.items() if isinstance(error, kind))
    short = name.rpartition(".")[2]
    told = {"exception": short, "javaClassName": name, "message": str(error) or short}
    return said({"RemoteException": told}, code)


# ---- operations ----


def _status(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    return {"FileStatus": _told(files.status(path)._replace(name=""))}


def _listed(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    return {"FileStatuses": {"FileStatus": [_told(each) for each in files.listed(path)]}}


def _read(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    start = int(given.get("offset", 0))
    end = start + int(given["length"]) if "length" in given else None
    return files.read(path)[start:end]


def _created(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    files.write(path, body, overwrite=given.get("overwrite") == "true")
    return None


def _renamed(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    _, _, to = given["destination"].strip("/").partition("/")
    overwrite = "OVERWRITE" in given.get("renameoptions", "").upper().split(",")
    files.rename(path, to, overwrite=overwrite)
    return None if "renameoptions" in given else {"boolean": True}


def _made(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    files.make_directory(path)
    return {"boolean": True}


def _removed(files: CheckpointFiles, path: str, given: dict[str, str], body: bytes) -> Answer:
    return {"boolean": files.remove(path, recursive=given.get("recursive") == "true")}


def _told(status: Status) -> dict[str, Any]:
    return {
        "accessTime": status.modified_ms,
        "blockSize": 0 if status.is_directory else BLOCK_BYTES,
        "childrenNum": 0,
        "fileId": 0,
        "group": "tidelog",
        "length": status.size_bytes,
        "modificationTime": status.modified_ms,
        "owner": "tidelog",
        "pathSuffix": status.name,
        "permission": "700" if status.is_directory else "600",
        "replication": 0 if status.is_directory else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if status.is_directory else "FILE",
    }


ABOUT_ALL: Final[dict[str, Answer]] = {
    "GETHOMEDIRECTORY": {"Path": "/"},
    "GETSERVERDEFAULTS": {
        "FsServerDefaults": {
            "blockSize": BLOCK_BYTES,
            "bytesPerChecksum": 512,
            "checksumType": 2,
            "defaultStoragePolicyId": 0,
            "encryptDataTransfer": False,
            "fileBufferSize": 64 * 1024,
            "keyProviderUri": "",
            "replication": 1,
            "trashInterval": 0,
            "writePacketSize": 64 * 1024,
        }
    },
}
OPERATIONS: Final[dict[str, Serve]] = {
    "GETFILESTATUS": _status,
    "GETFILELINKSTATUS": _status,
    "LISTSTATUS": _listed,
    "OPEN": _read,
    "CREATE": _created,
    "RENAME": _renamed,
    "MKDIRS": _made,
    "DELETE": _removed,
}
