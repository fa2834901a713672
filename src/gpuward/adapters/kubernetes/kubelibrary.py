"""What kubernetes_asyncio makes of a kubeconfig: the fields, the plug-ins and OpenID are its to know, not ours.

That library is imported only here and only when asked for: it is many times as large as all the rest.
"""

import datetime as dt
import logging
import os
from pathlib import Path

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes.kubeshape import Shape, check_shape
from gpuward.adapters.kubernetes.login import Login
from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import Refused

_TOKEN = "BearerToken"  # noqa: S105  the library's key for it


async def read_login(path: str, context: str | None) -> Login:
    """Implement ReadLogin in this process. What is needed as files and is none is kept until the process ends."""
    return await read_login_into(None, path, context)


async def read_login_into(folder: str | None, path: str, context: str | None) -> Login:
    """Return what the files give, after their plug-in was asked if they name one; of several some may be missing.

    What is needed as files and is none goes into `folder`, or else to where such files go. Raises Refused.
    """
    shape = check_shape(_there(path), context)
    try:
        return await _loaded(shape, folder)
    except Exception as error:  # where a field or a plug-in is not as it should be, the library raises anything
        raise Refused(f"the kubeconfig {path} cannot be used ({_plain(error)}); mend it") from error


def _there(path: str) -> list[Path]:
    named = [Path(one).expanduser() for one in path.split(os.pathsep) if one]
    there = [one for one in named if one.exists()]
    if not there:
        raise Refused(f"there is no kubeconfig at {path}; name one with --kubeconfig")
    return there


async def _loaded(shape: Shape, folder: str | None) -> Login:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415  see the head of this file
    from kubernetes_asyncio.config import load_kube_config  # noqa: PLC0415

    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())  # it says on stderr what it raises
    found = Configuration()
    files = os.pathsep.join(map(str, shape.files))
    loader = await load_kube_config(files, shape.context, client_configuration=found, temp_file_path=folder)
    header = found.api_key.get(_TOKEN)
    return Login(
        url=str(found.host),
        authority=found.ssl_ca_cert,
        certificate=found.cert_file,
        key=found.key_file,
        is_verified=bool(found.verify_ssl),
        server_name=found.tls_server_name or None,
        proxy=found.proxy or None,
        header=str(header) if header else None,
        token_file=str(shape.token_file) if shape.token_file else None,
        lasts_seconds=_seconds_to(getattr(loader, "exec_plugin_expiry", None)),
    )


def _seconds_to(moment: dt.datetime | None) -> float | None:
    return None if moment is None else moment.timestamp() - SystemClock().now()


def _plain(error: Exception) -> str:
    """Return what the library says, up to where it shows the contents of the file, tokens among them."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no {shown(str(error.filename))}"
    return shown(str(error).partition("{")[0] or type(error).__name__)
