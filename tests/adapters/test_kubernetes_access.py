"""The ways to an API server: a pod's service account whose files are renewed, and a kubeconfig with all it may say."""

import asyncio
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.kubernetes import from_kubeconfig, in_cluster
from gpuward.adapters.kubernetes.access import TokenFile, TrustFiles
from gpuward.adapters.kubernetes.kubeconfig import RENEW_SECONDS
from gpuward.ports import Refused, Unreachable

HERE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate of its own and its key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run(
        [*words, "-subj", f"/CN={name}", "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    return certificate, key


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if not shutil.which("openssl"):
        pytest.skip("openssl is not there to make a certificate with")
    return make_certificate(tmp_path, "authority")


def account(folder: Path, certificate: Path) -> Path:
    """Lay out a service account as a kubelet does: links to a folder that is replaced as a whole."""
    folder.mkdir()
    mount(folder, certificate, "one")
    for name in ("token", "ca.crt"):
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def mount(folder: Path, certificate: Path, token: str) -> None:
    """Put a new token and certificate in at once, as a kubelet does."""
    fresh = folder / f"..{token}"
    fresh.mkdir()
    (fresh / "token").write_text(f"{token}\n", "utf-8")
    shutil.copy(certificate, fresh / "ca.crt")
    link = folder / "..tmp"
    link.symlink_to(fresh.name)
    link.rename(folder / "..data")


async def test_a_pod_finds_the_server_in_its_environment_and_its_account(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    access = in_cluster(HERE, account(tmp_path / "account", certificate[0]))
    assert access.url == "https://10.0.0.1:443"
    assert await access.authorization(None) == "Bearer one"
    trust = access.trust()
    assert trust is not None
    assert (trust.verify_mode, trust.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_the_address_of_ipv6_is_put_into_brackets(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    access = in_cluster(HERE | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account(tmp_path / "account", certificate[0]))
    assert access.url == "https://[fd00::1]:443"


async def test_a_token_and_a_certificate_that_are_renewed_are_read_again(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    folder = account(tmp_path / "account", certificate[0])
    access = in_cluster(HERE, folder)
    before = access.trust()
    assert access.trust() is before
    mount(folder, make_certificate(tmp_path, "next")[0], "two")
    assert await access.authorization(None) == "Bearer two"
    after = access.trust()
    assert after is not None
    assert after is not before
    assert [one["subject"] for one in after.get_ca_certs()] == [((("commonName", "next"),),)]


async def test_a_token_that_was_refused_is_read_again_although_its_file_looks_the_same(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one", "utf-8")
    token, stamp = TokenFile(file), file.stat()
    assert await token.authorization() == "Bearer one"
    file.write_text("two", "utf-8")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await token.authorization() == "Bearer one"
    assert await token.authorization("Bearer one") == "Bearer two"


async def test_a_token_whose_file_goes_for_a_moment_is_still_used(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one", "utf-8")
    token = TokenFile(file)
    assert token.read() == "Bearer one"
    file.unlink()
    assert await token.authorization() == "Bearer one"
    file.write_text("two", "utf-8")
    assert await token.authorization() == "Bearer two"


@pytest.mark.parametrize("text", ["", "\n", "to\nken", "to\x00ken", "tokén", "three little words"])
def test_a_token_that_no_request_can_carry_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, "utf-8")
    with pytest.raises(Refused, match="no token that can be sent") as caught:
        TokenFile(file).read()
    assert not text.strip() or text not in str(caught.value)


def test_without_a_pod_the_way_is_refused_and_a_kubeconfig_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="kubeconfig"):
        in_cluster({}, tmp_path)
    with pytest.raises(Refused, match=r"token in .* cannot be read"):
        in_cluster(HERE, tmp_path)


def test_certificates_that_are_none_are_refused_unless_good_ones_were_there(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    file = tmp_path / "ca.crt"
    with pytest.raises(Refused, match="certificates"):
        TrustFiles(file).context()
    shutil.copy(certificate[0], file)
    trust = TrustFiles(file)
    good = trust.context()
    file.write_text("half a certifi", "utf-8")
    assert trust.context() is good


def kubeconfig(folder: Path, *, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    """Write a kubeconfig with one user and return its path."""
    file = folder / "config"
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(whole), "utf-8")
    return str(file)


def plug_in(folder: Path, *, expires: str = "") -> dict[str, Any]:
    """Return a user who asks a program for its token: each time another one, and each time it is counted."""
    file = folder / "plug-in.py"
    status = "{'token': f'token-{count}'" + (f", 'expirationTimestamp': '{expires}'" if expires else "") + "}"
    file.write_text(
        "import json, pathlib, sys\n"
        f"asked = pathlib.Path({str(folder / 'asked')!r})\n"
        "count = len(asked.read_text()) + 1 if asked.exists() else 1\n"
        "asked.write_text('x' * count)\n"
        f"if pathlib.Path({str(folder / 'ill')!r}).exists(): sys.exit('no network')\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        f" 'status': {status}}}))\n",
        "utf-8",
    )
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": ["-I", str(file)]}}


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


async def test_a_kubeconfig_gives_the_server_and_a_token(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path, user={"token": "abc"}))
    assert (access.url, await access.authorization(None)) == ("https://10.0.0.1:6443", "Bearer abc")


def part(folder: Path, number: int, *, current: str | None = None, relative: bool = False) -> Path:
    """Write one of several kubeconfigs, in a folder of its own: its cluster, user and context, and some of a name."""
    place = folder / f"part-{number}"
    place.mkdir()
    token = {"tokenFile": "token"} if relative else {"token": f"token-{number}"}
    (place / "token").write_text(f"token-{number}", "utf-8")
    server = {"server": f"https://10.0.0.{number}:6443"}
    whole = {
        "clusters": [{"name": name, "cluster": server} for name in (f"c{number}", "shared")],
        "users": [{"name": name, "user": token} for name in (f"u{number}", "shared")],
        "contexts": [
            {"name": f"x{number}", "context": {"cluster": f"c{number}", "user": f"u{number}"}},
            {"name": "shared", "context": {"cluster": "shared", "user": "shared"}},
        ],
    } | ({} if current is None else {"current-context": current})
    (place / "config").write_text(json.dumps(whole), "utf-8")
    return place / "config"


@pytest.mark.parametrize(
    ("currents", "winner"),
    [
        (("x1", "x2"), 1),
        ((None, "x2"), 2),
        (("", "x2"), 2),
        (("x2", "x1"), 2),
        (("shared", "x2"), 1),
        ((None, "shared"), 1),
    ],
)
async def test_of_several_kubeconfigs_the_first_that_sets_a_thing_wins_as_with_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, currents: tuple[str | None, ...], winner: int
) -> None:
    first, second = (part(tmp_path, number, current=one) for number, one in enumerate(currents, 1))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nowhere:{first}::{second}:")
    access = await from_kubeconfig()
    assert (access.url, await access.authorization(None)) == (
        f"https://10.0.0.{winner}:6443",
        f"Bearer token-{winner}",
    )


async def test_a_path_in_one_of_several_kubeconfigs_begins_at_the_folder_of_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (part(tmp_path, 1), part(tmp_path, 2, current="x2", relative=True))
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    assert await (await from_kubeconfig()).authorization(None) == "Bearer token-2"


async def test_an_empty_one_of_several_kubeconfigs_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text("# nothing yet\n", "utf-8")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/empty:{part(tmp_path, 1, current='x1')}")
    assert (await from_kubeconfig()).url == "https://10.0.0.1:6443"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/empty:{tmp_path}/nowhere")
    with pytest.raises(Refused, match="empty is empty; name a kubeconfig"):
        await from_kubeconfig()


async def test_a_token_in_a_kubeconfig_that_was_refused_is_read_again(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path, user={"token": "old"}))
    kubeconfig(tmp_path, user={"token": "new"})
    assert await access.authorization(None) == "Bearer old"
    assert await access.authorization("Bearer old") == "Bearer new"


@pytest.mark.parametrize("beside", [{}, {"token": "written down"}])
async def test_a_token_file_is_read_again_when_it_is_another_one_and_goes_before_a_token_as_with_kubectl(
    tmp_path: Path, beside: dict[str, str]
) -> None:
    token = tmp_path / "token"
    token.write_text("one\n", "utf-8")
    access = await from_kubeconfig(kubeconfig(tmp_path, user={"tokenFile": "token", **beside}))
    assert await access.authorization(None) == "Bearer one"
    token.write_text("another\n", "utf-8")
    assert await access.authorization(None) == "Bearer another"


async def test_a_token_file_that_was_refused_is_looked_for_in_the_kubeconfig_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one", "utf-8")
    access = await from_kubeconfig(kubeconfig(tmp_path, user={"tokenFile": "token"}))
    (tmp_path / "next").write_text("two", "utf-8")
    kubeconfig(tmp_path, user={"tokenFile": "next"})
    assert await access.authorization("Bearer one") == "Bearer two"


async def test_a_plug_in_is_asked_once_until_its_token_is_refused(tmp_path: Path) -> None:
    clock = Time()
    access = await from_kubeconfig(kubeconfig(tmp_path, user=plug_in(tmp_path)), monotonic=clock)
    clock.now += 10 * RENEW_SECONDS
    assert await access.authorization(None) == "Bearer token-1"
    came = await asyncio.gather(*(access.authorization("Bearer token-1") for _ in range(5)))
    assert came == ["Bearer token-2"] * 5
    assert len((tmp_path / "asked").read_text("utf-8")) == 2


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")
async def test_a_plug_in_whose_token_has_run_out_is_asked_again(tmp_path: Path) -> None:
    clock = Time()
    user = plug_in(tmp_path, expires="2020-01-01T00:00:00Z")
    access = await from_kubeconfig(kubeconfig(tmp_path, user=user), monotonic=clock)
    assert await access.authorization(None) == "Bearer token-1"
    clock.now += RENEW_SECONDS
    assert await access.authorization(None) == "Bearer token-2"


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")
async def test_a_plug_in_that_is_ill_later_leaves_the_token_until_that_is_refused(tmp_path: Path) -> None:
    clock = Time()
    user = plug_in(tmp_path, expires="2020-01-01T00:00:00Z")
    access = await from_kubeconfig(kubeconfig(tmp_path, user=user), monotonic=clock)
    (tmp_path / "ill").touch()
    clock.now += RENEW_SECONDS
    assert await access.authorization(None) == "Bearer token-1"
    with pytest.raises(Unreachable, match="no network"):
        await access.authorization("Bearer token-1")
    (tmp_path / "ill").unlink()
    assert await access.authorization("Bearer token-1") == "Bearer token-4"


async def test_a_plug_in_that_is_ill_at_first_is_refused_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "ill").touch()
    with pytest.raises(Refused, match="no network"):
        await from_kubeconfig(kubeconfig(tmp_path, user=plug_in(tmp_path)))


async def test_a_client_certificate_is_all_that_says_who_we_are(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    user = {"client-certificate": str(certificate[0]), "client-key": str(certificate[1])}
    cluster = {"certificate-authority": str(certificate[0]), "tls-server-name": "api.example.com"}
    access = await from_kubeconfig(kubeconfig(tmp_path, user=user, cluster=cluster))
    assert await access.authorization(None) is None
    trust = access.trust()
    assert trust is not None
    assert (len(trust.get_ca_certs()), access.server_name) == (1, "api.example.com")
    make_certificate(tmp_path, "authority")
    assert access.trust() is not trust


async def test_a_certificate_in_a_kubeconfig_that_was_refused_is_read_again(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    first, second = certificate, make_certificate(tmp_path, "next")
    access = await from_kubeconfig(
        kubeconfig(tmp_path, user=in_line(*first), cluster={"server": "https://10.0.0.1:6443"})
    )
    kubeconfig(tmp_path, user=in_line(*second))
    before = access.trust()
    assert await access.authorization(None) is None
    assert access.trust() is before
    assert await access.authorization("") is None
    assert access.trust() is not before


def in_line(certificate: Path, key: Path) -> dict[str, str]:
    """Return a user who is known by a certificate that is written down in the kubeconfig."""
    parts = {"client-certificate-data": certificate, "client-key-data": key}
    return {field: base64.b64encode(file.read_bytes()).decode() for field, file in parts.items()}


async def test_a_server_without_tls_behind_a_proxy_with_it_is_trusted_by_the_kubeconfig_too(
    tmp_path: Path,
) -> None:
    way = {"server": "http://10.0.0.1:8080", "proxy-url": "https://10.0.0.9"}
    assert (await from_kubeconfig(kubeconfig(tmp_path, user={"token": "abc"}, cluster=way))).trust() is not None
    way = {"server": "http://10.0.0.1:8080", "proxy-url": "http://10.0.0.9"}
    assert (await from_kubeconfig(kubeconfig(tmp_path, user={"token": "abc"}, cluster=way))).trust() is None


async def test_who_wants_it_trusts_any_server(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True}
    trust = (await from_kubeconfig(kubeconfig(tmp_path, user={"token": "abc"}, cluster=cluster))).trust()
    assert trust is not None
    assert trust.verify_mode is ssl.CERT_NONE


async def test_a_kubeconfig_that_is_broken_later_leaves_the_token_until_that_is_refused(tmp_path: Path) -> None:
    access = await from_kubeconfig(kubeconfig(tmp_path, user={"token": "old"}))
    (tmp_path / "config").write_text("", "utf-8")
    assert await access.authorization(None) == "Bearer old"
    with pytest.raises(Unreachable, match="is empty"):
        await access.authorization("Bearer old")


async def test_a_kubeconfig_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--kubeconfig"):
        await from_kubeconfig(str(tmp_path / "none"))


async def test_no_secret_of_a_kubeconfig_is_in_an_error(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"refresh-token": "s3cr3t"}}, "password": "s3cr3t"}
    with pytest.raises(Refused, match="Expected key client-id") as caught:
        await from_kubeconfig(kubeconfig(tmp_path, user=user))
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(Refused) as caught:
        await from_kubeconfig(kubeconfig(tmp_path, user={"token": "s3cr3t"}, cluster={"server": "ftp://10.0.0.1"}))
    assert "s3cr3t" not in str(caught.value)


def test_the_library_that_reads_kubeconfigs_is_not_loaded_in_a_cluster() -> None:
    words = "import sys, gpuward.adapters.kubernetes as it; sys.exit('kubernetes_asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0
