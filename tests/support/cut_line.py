"""A line between two processes that a test can cut and join again."""

import contextlib
import socket
import threading
from typing import Self

CHUNK_BYTES = 65_536
TICK_SECONDS = 0.2


class CutLine:
    """Listens on a port of its own and passes bytes on. While it is cut, whoever connects is hung
    up on, and connections that were open are closed."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(TICK_SECONDS)
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.cut()
        self._listening.close()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                near, _ = self._listening.accept()
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        with self._lock:
            if self._is_cut:
                near.close()
                return
            far = socket.create_connection(self._to)
            self._open |= {near, far}
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()
