"""A kubeconfig that is read in a child: the same login, no library in this process, nothing left behind."""

import asyncio
import base64
import contextlib
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.kubernetes import from_kubeconfig
from gpuward.adapters.kubernetes.aside import aside
from gpuward.adapters.kubernetes.kubelibrary import read_login
from gpuward.adapters.kubernetes.login import Login
from gpuward.ports import Refused, Unreachable
from tests.kit.ward import until

PEM = "-----BEGIN CERTIFICATE-----\nnot looked at here\n-----END CERTIFICATE-----\n"
IN_LINE = base64.b64encode(PEM.encode()).decode()
VERSION = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    """Write a kubeconfig with one user, and return its path."""
    whole = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("x", "y")],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(whole), "utf-8")
    return str(folder / "config")


def plug_in(words: str, status: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a user whom a program logs in, after it has done what `words` say."""
    answer = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status or {"token": "abc"}}
    script = f"{words}\nprintf %s {shlex.quote(json.dumps(answer))}"
    return {"exec": {"apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", script]}}


def contents(login: Login) -> Login:
    """Return the login with what its files hold in place of their paths."""
    held = (None if path is None else Path(path).read_text("utf-8") for path in login_files(login))
    authority, certificate, key = held
    lasts = None if login.lasts_seconds is None else round(login.lasts_seconds, -3)
    return replace(login, authority=authority, certificate=certificate, key=key, lasts_seconds=lasts)


def login_files(login: Login) -> tuple[str | None, ...]:
    return login.authority, login.certificate, login.key


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")
@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"token": "abc"}, {}),
        ({"username": "me", "password": "it"}, {"insecure-skip-tls-verify": True}),
        ({"tokenFile": "token"}, {"tls-server-name": "api.example.com", "proxy-url": "http://10.0.0.9:3128"}),
        ({"client-certificate-data": IN_LINE, "client-key-data": IN_LINE}, {"certificate-authority-data": IN_LINE}),
        ({"client-certificate": "token", "client-key": "token"}, {"certificate-authority": "token"}),
        (plug_in("", {"token": "from a program", "expirationTimestamp": "2100-01-01T00:00:00Z"}), {}),
        (plug_in("", {"clientCertificateData": PEM, "clientKeyData": PEM}), {}),
    ],
)
async def test_a_child_reads_the_same_login(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any]) -> None:
    (tmp_path / "token").write_text("from a file", "utf-8")
    path = kubeconfig(tmp_path, user, cluster)
    with aside() as read:
        assert contents(await read(path, None)) == contents(await read_login(path, None))


async def test_the_files_of_a_login_stay_until_the_next_or_the_end_and_are_nobody_elses(tmp_path: Path) -> None:
    user = {"client-certificate-data": IN_LINE, "client-key-data": IN_LINE}
    with aside() as read:
        first = await read(kubeconfig(tmp_path, user), None)
        files = [Path(file) for file in login_files(first) if file]
        assert [file.parent.stat().st_mode & 0o777 for file in files] == [0o700, 0o700]
        (tmp_path / "config").write_text("", "utf-8")
        with pytest.raises(Refused, match="config is empty; name a kubeconfig, or write one"):
            await read(str(tmp_path / "config"), None)
        assert all(file.exists() for file in files)
        second = await read(kubeconfig(tmp_path, user), None)
        assert not any(file.parent.exists() for file in files)
    assert not any(Path(file).parent.exists() for file in login_files(second) if file)


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"client-key": "/nope"}, "user.client-key names /nope, and there is no such file; mend the path"),
        ({"auth-provider": {"name": "oidc", "config": {"refresh-token": "s3cr3t"}}}, "Expected key client-id"),
        (plug_in("echo no network >&2; exit 4"), "no network"),
        (plug_in("exit 4"), "process returned 4"),
    ],
)
async def test_a_child_refuses_in_the_same_words(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    path = kubeconfig(tmp_path, user)
    with pytest.raises(Refused, match=said) as here:
        await read_login(path, None)
    with aside() as read, pytest.raises(Refused) as there:
        await read(path, None)
    assert str(there.value) == str(here.value)


async def test_another_context_and_a_missing_file_reach_the_child(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "abc"})
    with aside() as read:
        assert (await read(f"{tmp_path}/nowhere:{path}", "y")).header == "Bearer abc"
        with pytest.raises(Refused, match="current-context is z, and contexts has none of that name"):
            await read(path, "z")
        with pytest.raises(Refused, match=r"there is no kubeconfig at .*nowhere; name one with --kubeconfig"):
            await read(f"{tmp_path}/nowhere", None)


async def test_a_plug_in_that_does_not_answer_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, plug_in(f"echo $$ > {tmp_path}/pid; sleep 600"))
    with aside(patience_seconds=4) as read, pytest.raises(Unreachable, match="was not read within 4 s; see what its"):
        await read(path, None)
    await asyncio.to_thread(until, lambda: _is_gone(tmp_path / "pid"), "the plug-in is gone")


async def test_who_stops_waiting_leaves_no_child(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, plug_in(f"echo $$ > {tmp_path}/pid; sleep 600"))
    with aside() as read:
        waiting = asyncio.ensure_future(read(path, None))
        await asyncio.to_thread(until, (tmp_path / "pid").exists, "the plug-in runs")
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    await asyncio.to_thread(until, lambda: _is_gone(tmp_path / "pid"), "the plug-in is gone")


def _is_gone(file: Path) -> bool:
    """Return whether the process is gone; one that only waits for whoever collects orphans is."""
    stat = Path("/proc") / file.read_text("utf-8").strip() / "stat"
    return not stat.exists() or ") Z " in stat.read_text("utf-8", "replace")


@pytest.mark.parametrize("words", ["print('no json')", "print('{}')", "print('[]')", "raise SystemExit('it broke')"])
async def test_a_child_that_gives_no_answer_is_told(words: str) -> None:
    with aside(child=(sys.executable, "-c", words)) as read, pytest.raises(Unreachable, match="gave no answer"):
        await read("config", None)


async def test_an_ill_plug_in_leaves_the_token_until_that_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, plug_in(f"test ! -e {tmp_path}/ill || exit 1"))
    with aside() as read:
        access = await from_kubeconfig(path, read=read)
        (tmp_path / "ill").touch()
        assert await access.authorization(None) == "Bearer abc"
        with pytest.raises(Unreachable, match="process returned 1"):
            await access.authorization("Bearer abc")


def test_a_program_that_stays_has_no_library_for_kubeconfigs_in_it(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "abc"})
    words = f"""
import asyncio, sys
from gpuward.cli.wiring.cluster import access_of
async def main():
    async with access_of({path!r}):
        print(sorted({{"kubernetes_asyncio", "yaml"}} & set(sys.modules)))
asyncio.run(main())
"""
    said = subprocess.run([sys.executable, "-c", words], check=True, capture_output=True, text=True)
    assert said.stdout == "[]\n"
