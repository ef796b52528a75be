"""How the driver's process of a streaming query starts, run as a program: `early_worker.py MODULE`.

Spark waits ten seconds for that process to connect, and no setting makes it wait longer. PySpark
connects when it has loaded itself, which takes half a second of a processor: more than ten seconds
where thirty other processes want it too. This program connects first and loads PySpark then, for
which Spark waits as long as it takes. Only the standard library may be imported before that.
"""

import os
import runpy
import socket
import struct
import sys
from io import IOBase
from typing import Any

LENGTH = struct.Struct("!i")


def connected() -> "tuple[IOBase, socket.socket]":
    """To the Spark that started this process, which is told the secret if it wants one."""
    timeout_s = int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15"))
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        connection.connect(path)
    else:
        prefers_ipv6 = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
        port = int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
        connection = socket.create_connection(("::1" if prefers_ipv6 else "127.0.0.1", port))
        connection.settimeout(timeout_s)
    stream = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    if path is None:
        _authenticate(stream, os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode())
    return stream, connection


def _authenticate(stream: Any, secret: bytes) -> None:
    stream.write(LENGTH.pack(len(secret)) + secret)
    stream.flush()
    (length,) = LENGTH.unpack(stream.read(LENGTH.size))
    answer = stream.read(length)
    if answer != b"ok":
        raise SystemExit(f"Spark does not know this worker: {answer!r}")


def main(module: str) -> None:
    sys.path[0] = os.getcwd()  # as with `python -m`; our own directory has names of others
    connection = connected()

    import pyspark.util  # noqa: PLC0415 - what takes its time

    def has_connected(_: str | int | None, __: str | None) -> tuple[Any, ...]:
        return connection

    pyspark.util.local_connect_and_auth = has_connected  # type: ignore[assignment]
    sys.argv[:] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
