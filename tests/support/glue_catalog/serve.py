"""The process: it says where it listens, and serves until it is ended."""

import threading

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(f"address {host}:{port}", flush=True)
threading.Event().wait()
