"""What only the real API server can show of the adapter: who it takes us for, what it forgets, what it calls things."""

import json
import shutil
import urllib.request
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.kubernetes import KubernetesCluster, from_kubeconfig, in_cluster
from gpuward.adapters.kubernetes.access import TrustFiles
from gpuward.model.resource import GPU_NODES, NODES, Resource
from gpuward.ports import Cluster, Refused, Unreachable
from tests.cluster.real_world import access_of
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.parts import Part

pytestmark = [pytest.mark.real, pytest.mark.long]
REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def who_are_we(cluster: Cluster) -> str:
    review = await cluster.create(REVIEWS, {})
    return str(review["status"]["userInfo"]["username"])


def account(folder: Path, kit: Kit, token: str) -> Path:
    """Lay out a service account."""
    folder.mkdir()
    (folder / "token").write_text(token, "utf-8")
    shutil.copy(kit.plane.ca_file, folder / "ca.crt")
    return folder


def environment(kit: Kit) -> Mapping[str, str]:
    port = str(kit.plane.site.ports[Part.API])
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}


@pytest.fixture
async def admin(cluster: Kit) -> AsyncIterator[KubernetesCluster]:
    opened = KubernetesCluster(access_of(cluster.plane, cluster.plane.admin), page=2)
    yield opened
    await opened.close()


async def test_a_pod_is_who_its_token_says_also_after_that_was_renewed(cluster: Kit, tmp_path: Path) -> None:
    first, second = (cluster.plane.user(cluster.name(word)) for word in ("first", "second"))
    folder = account(tmp_path / "account", cluster, first.token)
    opened = KubernetesCluster(in_cluster(environment(cluster), folder))
    assert await who_are_we(opened) == first.name
    (folder / "token").write_text(second.token, "utf-8")
    assert await who_are_we(opened) == second.name
    await opened.close()


async def test_a_token_that_is_none_is_refused_until_a_good_one_is_there(cluster: Kit, tmp_path: Path) -> None:
    folder = account(tmp_path / "account", cluster, "nobodys-token")
    opened = KubernetesCluster(in_cluster(environment(cluster), folder))
    with pytest.raises(Refused, match="401 Unauthorized") as caught:
        await opened.get(NODES, "n1")
    assert "nobodys-token" not in str(caught.value)
    (folder / "token").write_text(cluster.plane.admin.token, "utf-8")
    assert await opened.get(NODES, "n1") is None
    await opened.close()


async def test_a_kubeconfig_leads_to_the_server(cluster: Kit) -> None:
    opened = KubernetesCluster(await from_kubeconfig(str(cluster.plane.admin.kubeconfig)))
    assert await who_are_we(opened) == "admin"
    await opened.close()


async def test_a_server_that_is_not_trusted_is_unreachable(cluster: Kit) -> None:
    access = access_of(cluster.plane, cluster.plane.admin)
    opened = KubernetesCluster(replace(access, trust=TrustFiles(None).context))
    with pytest.raises(Unreachable, match="is not trusted"):
        await opened.get(NODES, "n1", deadline_seconds=3)
    await opened.close()


async def test_a_kind_that_is_not_installed_is_refused_whatever_is_asked(admin: KubernetesCluster) -> None:
    for call in (admin.list(GPU_NODES), admin.get(GPU_NODES, "n1"), admin.delete(GPU_NODES, "n1")):
        with pytest.raises(Refused, match="whether this kind is installed"):
            await call


async def test_a_patch_to_another_type_is_no_test_that_failed(cluster: Kit, admin: KubernetesCluster) -> None:
    await admin.create(NODES, {"metadata": {"name": cluster.name("node")}})
    wrong = {"op": "add", "path": "/spec/taints", "value": "text"}
    with pytest.raises(Refused, match="Invalid value"):
        await admin.patch(NODES, cluster.name("node"), [wrong])


async def test_what_we_set_is_ours_by_name(cluster: Kit, admin: KubernetesCluster) -> None:
    made = await admin.create(NODES, {"metadata": {"name": cluster.name("node"), "labels": {"a": "b"}}})
    assert {one["manager"] for one in made["metadata"]["managedFields"]} == {"gpuward"}


async def test_a_list_whose_beginning_the_server_forgot_is_begun_again_and_is_whole(
    cluster: Kit, admin: KubernetesCluster
) -> None:
    names = [cluster.name(f"node-{number}") for number in range(5)]
    for name in names[:4]:
        await admin.create(NODES, {"metadata": {"name": name}})
    seen: list[str] = []

    def project(item: Mapping[str, Any]) -> str:
        seen.append(item["metadata"]["name"])
        if len(seen) == 2:  # the first page came, and the second is to be asked for
            made = cluster.plane.admin.api.post("/api/v1/nodes", {"metadata": {"name": names[4]}}).ok()
            forget_all_before(cluster, made["metadata"]["resourceVersion"])
        return seen[-1]

    listed = await admin.list(NODES, project=project)
    assert (sorted(listed.items), seen) == (names, names[:2] + names)


def forget_all_before(kit: Kit, version: str) -> None:
    """Compact etcd, and start the API server anew, which remembers lists too."""
    body = json.dumps({"revision": version, "physical": True}).encode()
    url = f"{kit.plane.site.url(Part.ETCD)}/v3/kv/compaction"
    urllib.request.urlopen(url, body, timeout=30).close()  # noqa: S310  etcd of the kit
    with kit.plane.away():
        pass
