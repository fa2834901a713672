"""What a kubeconfig gives, as a value that one process can hand to another. What is made of it is not here."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Login:
    """How a server is reached, and what says who asks. Files are paths; `header` is for Authorization."""

    url: str
    """Without a slash at its end."""
    authority: str | None
    certificate: str | None
    key: str | None
    is_verified: bool
    server_name: str | None
    proxy: str | None
    header: str | None
    """None when the certificate alone says who we are."""
    token_file: str | None
    """The file of the header's token, which somebody else renews; None where it is from no file."""
    lasts_seconds: float | None
    """How long the header is good from now; None where nothing tells."""


ReadLogin = Callable[[str, str | None], Awaitable[Login]]
"""Reads the kubeconfig of files joined by colons, with a context of it or else its current one. Raises Refused."""
