"""A task of a cluster in a process of its own, told by its standard input; it ends when that closes.

python serve.py JOB INDEX [PORT]: prints its address, reads the cluster as JSON, prints "ready", serves. Without PORT it
takes a free one.
"""

from __future__ import annotations

import json
import os
import sys

from sparkflow_runtime.server import Server
from sparkflow_runtime.wire.cluster import ClusterSpec


def main() -> None:
    job, index, port = sys.argv[1], int(sys.argv[2]), "".join(sys.argv[3:]) or "0"
    server = Server(job, index, f"127.0.0.1:{port}", b"secret", keepalive_s=2.0 if port == "0" else 10.0)
    print(server.address, flush=True)
    server.join_cluster(ClusterSpec(json.loads(sys.stdin.readline())))
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
