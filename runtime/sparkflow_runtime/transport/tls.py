"""TLS 1.3 on a stream socket: which certificate, key and authority (tls_socket.py has the socket).

Who speaks is proved by the job's secret as without TLS; the proofs then also cover the listener's certificate, so a
stranger in the middle with a certificate of its own is refused even where no authority is named. TLS adds that nobody
reads or changes what travels. Sockets of one host (unix://) never leave the kernel and have no TLS.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from sparkflow_runtime.wire.errors import InvalidArgumentError

VARIABLE = "SPARKFLOW_TLS_"


@dataclass(frozen=True)
class Tls:
    """Paths of PEM files. certificate (with those that lead to the authority), key: of this end.

    ca: of the authority; the listener's certificate must then be one of its, and with `mutual` the dialler's too.
    Raises InvalidArgumentError where a file is missing or unreadable, or the key does not fit.
    """

    certificate: str
    key: str
    ca: str = ""
    mutual: bool = False

    def __post_init__(self) -> None:
        if self.mutual and not self.ca:
            raise InvalidArgumentError("TLS: `mutual` needs `ca`, the authority whose certificates are accepted")
        from sparkflow_runtime.transport.tls_socket import contexts  # Python's ssl is dear to import

        contexts(self)  # what is wrong is said now

    @classmethod
    def from_environment(cls) -> Tls | None:
        """SPARKFLOW_TLS_CERTIFICATE and _KEY turn TLS on; _CA and _MUTUAL=1 as above. None where none of them is set.

        Raises InvalidArgumentError where the others are set alone: whoever set them takes what travels for encrypted.
        """
        certificate, key, ca, mutual = (
            os.environ.get(VARIABLE + name, "") for name in ("CERTIFICATE", "KEY", "CA", "MUTUAL")
        )
        if mutual not in ("", "0", "1"):
            raise InvalidArgumentError(f"{VARIABLE}MUTUAL is {mutual!r}: it can be 1 or 0")
        if certificate:
            return cls(certificate, key or certificate, ca, mutual == "1")
        alone = [VARIABLE + name for name, is_set in (("KEY", key), ("CA", ca), ("MUTUAL", mutual == "1")) if is_set]
        if alone:
            raise InvalidArgumentError(
                f"TLS: {' and '.join(alone)} set without {VARIABLE}CERTIFICATE, so nothing would be encrypted. Give "
                "this process's certificate too, or unset what is set"
            )
        return None
