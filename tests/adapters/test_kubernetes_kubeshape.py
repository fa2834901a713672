"""What is no kubeconfig is refused in a sentence that names file, field and remedy, and shows no contents."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.kubernetes import from_kubeconfig
from gpuward.ports import Refused


def a_config(**changes: Any) -> str:
    """Return a kubeconfig; `changes` are to its user and cluster, or to the whole of it."""
    whole: dict[str, Any] = {
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443", **changes.pop("cluster", {})}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": changes.pop("user", {})}],
        "current-context": "c",
    }
    return json.dumps({**whole, **changes})


SERVER = "https://10.0.0.1:6443"
SAY_WHERE = f"say where the API server is, such as {SERVER}"
NO_PEM = "bm90IGluIFBFTQ=="


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "config is empty; name a kubeconfig, or write one"),
        ("[]", "config holds a list and not the fields of a kubeconfig; name another"),
        ("hello", "config holds text and not the fields of a kubeconfig; name another"),
        ("{", "config is no YAML at line 1, so it is no kubeconfig; mend it"),
        ("a: 1\nb: [2\nc: }", "config is no YAML at line 3, so it is no kubeconfig; mend it"),
        ("[" * 5000, "config is nested too deep for a kubeconfig; name another"),
        ("contexts: 5", "config: contexts must be a list and is a number; mend it"),
        ("users: [5]", "config: entry 1 of users has no name that is text; mend it"),
        ("{}", "config names no current-context: choose one with `kubectl config use-context`"),
        (
            '{"current-context": "x"}',
            "config: current-context is x, and contexts has none of that name; choose another",
        ),
        (
            a_config(users=[]),
            "config: c in contexts, context names the user u, and users has none of that name; name one that is there",
        ),
        (
            a_config(contexts=[{"name": "c", "context": {}}]),
            "config: c in contexts, context names no cluster; name one that is there",
        ),
        (
            a_config(contexts=[{"name": "c", "context": {"cluster": "k"}}]),
            f"config: c in contexts, context names no user, and {SERVER} must know who asks; name one that is there",
        ),
        (
            a_config(user=None),
            "config: u in users, user is empty: say there how to log in, such as by a token, or {} for not at all",
        ),
        (a_config(user=5), "config: user of u in users must be fields and is a number; mend it"),
        (
            a_config(cluster={"server": ""}),
            f"config: k in clusters, cluster.server is missing: {SAY_WHERE}",
        ),
        (
            a_config(user={"client-certificate": "/nope", "client-key": "/nope"}),
            "config: u in users, user.client-certificate names /nope, and there is no such file; mend the path",
        ),
        (
            a_config(user={"client-certificate-data": "!"}),
            "config: u in users, user.client-certificate-data is no base64: put the certificate in anew",
        ),
        (
            a_config(user={"exec": 5}),
            "config: u in users, user.exec must say a command that gives the token; mend it",
        ),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_refused_with_file_field_and_remedy(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text, "utf-8")
    with pytest.raises(Refused) as caught:
        await from_kubeconfig(str(file))
    assert str(caught.value) == f"{tmp_path}/{said}"


async def test_certificates_in_a_kubeconfig_that_are_none_are_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(a_config(user={"client-certificate-data": NO_PEM, "client-key-data": NO_PEM}), "utf-8")
    with pytest.raises(Refused) as caught:
        (await from_kubeconfig(str(file))).trust()
    assert str(caught.value) == (
        f"client-certificate and client-key of the kubeconfig {file} cannot be used "
        "(not in PEM form, or they do not belong together); see what wrote them"
    )
    file.write_text(a_config(cluster={"certificate-authority-data": NO_PEM}), "utf-8")
    with pytest.raises(Refused, match=f"certificate-authority of the kubeconfig {file} cannot be used"):
        (await from_kubeconfig(str(file))).trust()


async def test_a_folder_and_a_pipe_are_told_for_what_they_are_and_nobody_waits_for_them(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is a folder: name a kubeconfig, a plain file"):
        await from_kubeconfig(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="no file that can be read again, such as a pipe or a device"):
        await from_kubeconfig(str(tmp_path / "pipe"))


LONG = "a" * 70
NO_PROXY = "config: k in clusters, cluster.proxy-url is no address that begins with http://; no other proxies are known"


@pytest.mark.parametrize(
    "server",
    [
        *("https://[::1", "https://10.0.0.1:99999", "https://10.0.0.1:x", "10.0.0.1:6443", "ftp://10.0.0.1", "http://"),
        *("https://a b", "https://a\nb", "https://a\x00b", f"https://{LONG}", "https://ü..x", 5, ["https://a"]),
    ],
)
async def test_a_kubeconfig_whose_server_is_no_address_is_refused(tmp_path: Path, server: object) -> None:
    (tmp_path / "config").write_text(a_config(cluster={"server": server}))
    with pytest.raises(Refused) as caught:
        await from_kubeconfig(str(tmp_path / "config"))
    said = "cluster.server is no address of a server that begins with https://"
    assert str(caught.value) == f"{tmp_path}/config: k in clusters, {said}: {SAY_WHERE}"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        *(
            ("proxy-url", value, NO_PROXY)
            for value in ("socks5://10.0.0.1:1", "10.0.0.1", "http://", f"http://{LONG}", 5)
        ),
        ("tls-server-name", 5, "config: k in clusters, cluster.tls-server-name is no name; write it as text"),
        (
            "server",
            "https://me:secret@10.0.0.1",
            f"config: k in clusters, cluster.server has a password in it, which would be shown: {SAY_WHERE}",
        ),
    ],
)
async def test_a_way_to_the_server_that_no_request_can_go_is_refused(
    tmp_path: Path, field: str, value: object, said: str
) -> None:
    (tmp_path / "config").write_text(a_config(cluster={field: value}))
    with pytest.raises(Refused) as caught:
        await from_kubeconfig(str(tmp_path / "config"))
    assert str(caught.value) == f"{tmp_path}/{said}"


@pytest.mark.parametrize("server", ["https://[::1]:6443/", "https://k8s.example.com./a/b", "http://bücher.example"])
async def test_an_address_of_any_kind_is_taken_as_it_is_written(tmp_path: Path, server: str) -> None:
    (tmp_path / "config").write_text(a_config(cluster={"server": server, "proxy-url": "http://me:it@10.0.0.1:3128"}))
    access = await from_kubeconfig(str(tmp_path / "config"))
    assert (access.url, access.proxy) == (server.rstrip("/"), "http://me:it@10.0.0.1:3128")
