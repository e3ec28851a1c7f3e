"""A parameter server in a process of its own: `python -m sparkflow_connectors.ps_process`, started by `Child`, or the
fork of a worker that has just begun."""

from __future__ import annotations

import os
import sys

from sparkflow_connectors.processes import Parent


def main() -> None:
    serve(Parent())


def serve(parent: Parent) -> None:
    fields, secret = parent.receive()
    sys.setswitchinterval(5e-4)  # a thread that holds the GIL delays every other by this much

    from sparkflow.session.server import Server
    from sparkflow.train.cluster_resolver import TF_CONFIG, tf_config

    server = Server.bound("ps", fields["index"], fields["host"], secret, fields["keepalive_s"])
    parent.send({"address": server.address})
    cluster, _ = parent.receive()
    server.join_cluster(cluster["cluster"])
    os.environ[TF_CONFIG] = tf_config(cluster["cluster"], "ps", fields["index"])
    parent.send({"joined": True})
    parent.watch()
    server.join()


if __name__ == "__main__":
    main()
