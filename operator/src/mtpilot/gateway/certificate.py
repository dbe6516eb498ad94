"""The gateway's certificate, from a mounted Secret of type kubernetes.io/tls."""

from pathlib import Path

from mtpilot.render.haproxy_options import CERTIFICATE_FILE, PRIVATE_KEY_FILE

from .ports import Certificate


class FileCertificates:
    """`tls.crt` and `tls.key` in `folder`, which is mounted for HAProxy under the same path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> Certificate | None:
        """Chain and key as they are now; None where one of them cannot be read."""
        try:
            chain, key = ((self._folder / name).read_text() for name in (CERTIFICATE_FILE, PRIVATE_KEY_FILE))
        except (OSError, UnicodeDecodeError):
            return None
        return Certificate(path=str(self._folder / CERTIFICATE_FILE), pem=f"{chain}\n{key}") if chain.strip() and key.strip() else None
