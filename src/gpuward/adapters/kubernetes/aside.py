"""A kubeconfig read in a child, for a program that stays: the library that reads it would hold 40 MB for good."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuward.adapters.kubernetes.login import Login, ReadLogin
from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import Refused, Unreachable

PATIENCE_SECONDS = 60.0
"""How long a plug-in may take; some wait for a slow network."""
_CHILD = (sys.executable, "-P", "-m", "gpuward.adapters.kubernetes.kubelibrary_child")
"""-P: the working directory is no place to import from."""


@contextmanager
def aside(*, child: Sequence[str] = _CHILD, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[ReadLogin]:
    """Give a ReadLogin that works in a child while the body runs; the files of the last login stay as long."""
    kept = contextlib.ExitStack()

    async def read(path: str, context: str | None) -> Login:
        """Read them; raises Unreachable too, when a plug-in does not answer in time."""
        nonlocal kept
        with contextlib.ExitStack() as files:
            folder = files.enter_context(tempfile.TemporaryDirectory(prefix="gpuward-"))
            words = (*child, folder, path, *([context] if context else []))
            try:
                async with asyncio.timeout(patience_seconds):
                    login = _login(*await _said(words), path=path)
            except TimeoutError as error:
                why = f"the kubeconfig {path} was not read within {patience_seconds:g} s"
                raise Unreachable(f"{why}; see what its plug-in waits for") from error
            kept.close()
            kept = files.pop_all()
        return login

    try:
        yield read
    finally:
        kept.close()


async def _said(words: Sequence[str]) -> tuple[bytes, bytes]:
    """Return what a child says on both its pipes. It and its group are gone when this ends, however it ends."""
    process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, process_group=0)
    try:
        return await process.communicate()
    finally:
        if process.returncode is None:
            await _end(process)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # not reaped, so the number is still its own
    await process.wait()


def _login(out: bytes, err: bytes, *, path: str) -> Login:
    """Return what the child told. Raises Refused in its words, Unreachable for what is no answer."""
    try:
        answer = json.loads(out)
        login = None if "refused" in answer else Login(**answer["login"])
    except (ValueError, KeyError, TypeError) as error:
        last = shown(err.decode("utf-8", "replace")[-200:])
        raise Unreachable(f"the child that reads the kubeconfig {path} gave no answer ({last}); try again") from error
    if login is None:
        raise Refused(str(answer["refused"]))
    return login
