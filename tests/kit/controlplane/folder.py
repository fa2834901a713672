"""The folder of one control plane: its data, logs, key, certificates and kubeconfigs; gone with it, or swept later."""

import base64
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PREFIX = "gpuward-controlplane-"
_ALIVE = "alive"
_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the curve; a private key is a number below it, and not zero."""
_EC_BEFORE, _EC_AFTER = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")
"""What stands around the number in an ECPrivateKey of P-256 (RFC 5915); the public part may be left out."""


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Give a fresh folder, removed at the end; first remove those whose owners were killed."""
    sweep_folders()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    mark = folder / ".new"
    with mark.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the kernel lets it go when we die
        mark.rename(folder / _ALIVE)  # seen only when held, so that nobody sweeps a folder that is just being made
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep_folders() -> None:
    """Remove this user's folders that no living process holds."""
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_ALIVE}"):
        with contextlib.suppress(OSError), mark.open("ab") as held:
            if mark.parent.lstat().st_uid == os.getuid():  # the place is open to all users
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(mark.parent, ignore_errors=True)


def write_secret(file: Path, text: str) -> Path:
    """Write a file that only its owner reads; return it."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    return file


def signing_key() -> str:
    """Return a fresh P-256 private key as PEM, to sign service account tokens with."""
    number = (1 + secrets.randbelow(_P256 - 1)).to_bytes(32, "big")
    return _pem("EC PRIVATE KEY", _EC_BEFORE + number + _EC_AFTER)


def kubeconfig(url: str, *, ca_file: Path | None = None, token: str = "") -> str:
    """Return a kubeconfig for one server and one user, as JSON, which is YAML too."""
    cluster: dict[str, Any] = {"server": url} | ({"certificate-authority": str(ca_file)} if ca_file else {})
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token} if token else {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        },
        indent=2,
    )


def _pem(label: str, content: bytes) -> str:
    lines = base64.encodebytes(content).decode()
    return f"-----BEGIN {label}-----\n{lines}-----END {label}-----\n"
