"""A process that listens, says where, and echoes until its stdin closes: python echo_child.py KEEPALIVE_S URL"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sparkflow_runtime.transport import Channel, NoHandler, Options, listen


class Echo(NoHandler):
    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        if reply is not None:
            reply(meta, tensors)


if __name__ == "__main__":
    listener = listen(sys.argv[2], Echo(), identity="/job:echo", options=Options(float(sys.argv[1])))
    print(listener.url, flush=True)
    sys.stdin.read()
    listener.close()
