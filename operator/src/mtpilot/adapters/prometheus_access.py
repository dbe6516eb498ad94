"""How a Prometheus wants to be asked: its certificate authority, and who we are.

Secrets come as files and are read again for each query: a mounted Secret changes under a running process.
"""

from dataclasses import dataclass
from pathlib import Path

import requests
from requests.auth import AuthBase, _basic_auth_str

USERNAME_FILE = "username"
PASSWORD_FILE = "password"  # noqa: S105 - the name of a file, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAccess:
    """At most one of the first two; `ca_file` None trusts what the system trusts.

    token_file: its content is sent as a bearer token. basic_auth: a folder with the files `username` and `password`, as a
    Secret of type kubernetes.io/basic-auth is mounted. ca_file: PEM of the authorities that may have signed the server's certificate.
    """

    token_file: Path | None = None
    basic_auth: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        if self.token_file is not None and self.basic_auth is not None:
            raise ValueError("a bearer token and basic authentication exclude each other")

    def session(self) -> requests.Session:
        """A session that authenticates each request; not to be shared between threads."""
        session = requests.Session()
        session.trust_env = False
        if self.ca_file is not None:
            session.verify = str(self.ca_file)
        if self.token_file is not None or self.basic_auth is not None:
            session.auth = _FromFiles(self)
        return session

    def authorization(self) -> str:
        """The header as the files have it now.

        Raises:
            OSError, ValueError: a file is missing, cannot be read, or is empty; the message names it.
        """
        if self.token_file is not None:
            return f"Bearer {_read(self.token_file)}"
        if self.basic_auth is not None:
            return _basic_auth_str(_read(self.basic_auth / USERNAME_FILE), _read(self.basic_auth / PASSWORD_FILE))
        raise ValueError("neither a token nor basic authentication is set")


class _FromFiles(AuthBase):
    def __init__(self, access: PrometheusAccess) -> None:
        self._access = access

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._access.authorization()
        return request


def _read(path: Path) -> str:
    text = path.read_text(encoding="utf-8").strip()
    if not text:
        raise ValueError(f"{path} is empty")
    return text
