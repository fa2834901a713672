"""What `gpuward install` and `uninstall --print` print: everything, in the right order, and only what people chose."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuward.adapters.clock import SystemClock
from gpuward.cli.args import build_parser
from gpuward.cli.manifests.installation import Installation
from gpuward.cli.manifests.places import deletion_of
from gpuward.cli.wiring import UsageError
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.model.case import Mode
from gpuward.model.daemon_set import daemon_set_of
from gpuward.model.objects.owned import Taint
from gpuward.model.objects.standby_pool import TaintEffect
from gpuward.ports import Refused
from gpuward.settings import read_settings
from gpuward.sim.cluster import front
from gpuward.sim.cluster.cluster import pretend_cluster
from tests.install.commands import ask

ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ServiceAccount",
    "ClusterRole",
    "FlowSchema",
    "ConfigMap",
    "DaemonSet",
    "Deployment",
    "PodDisruptionBudget",
)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(ask(capsys, "install", *words).out))


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(one for one in objects if one["kind"] == kind)


def test_what_is_needed_first_is_printed_first(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = [one["kind"] for one in printed(capsys)]
    assert sorted(ORDER, key=kinds.index) == list(ORDER)
    bindings = [place for place, kind in enumerate(kinds) if kind.endswith("RoleBinding")]
    policy = max(place for place, kind in enumerate(kinds) if kind == "ValidatingAdmissionPolicyBinding")
    assert policy < min(bindings), "no right is given before what bounds it"


def test_yaml_and_json_are_the_same_objects(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(ask(capsys, "install", "--json").out)
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    assert whole["items"] == printed(capsys)
    assert "&id" not in ask(capsys, "install").out, "no aliases: people are to read it"


def test_the_right_to_reboot_is_given_only_where_a_person_wants_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    enabled = tmp_path / "gpuward.toml"
    enabled.write_text('[reboot]\nenabled = true\nimage = "a/b:1"\n')

    def jobs(*words: str) -> list[tuple[str, list[str]]]:
        roles = [one for one in printed(capsys, *words) if one["kind"].endswith("Role")]
        rules = [(role["kind"], rule) for role in roles for rule in role["rules"]]
        return [
            (kind, rule["verbs"]) for kind, rule in rules if "jobs" in rule["resources"] and "create" in rule["verbs"]
        ]

    assert jobs() == []
    assert jobs("--reboot") == jobs("--config", str(enabled)) == [("Role", ["create"])], "in our own namespace alone"


def test_everything_can_be_found_as_ours(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "--namespace", "ward")
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gpuward" for one in objects)
    assert all(one["metadata"].get("namespace", "ward") == "ward" for one in objects)
    assert "gpuward-system" not in json.dumps(objects)


def test_the_mode_is_observe_unless_a_person_says_otherwise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "gpuward.toml"
    file.write_text('profile = "nvidia"\n[controller]\nmode = "isolate"\n', "utf-8")
    for words, mode in (
        ((), Mode.OBSERVE),
        (("--mode", "repair"), Mode.REPAIR),
        (("--config", str(file)), Mode.ISOLATE),
    ):
        text = of_kind(printed(capsys, *words), "ConfigMap")["data"]["gpuward.toml"]
        assert read_settings(text, name="it", book=load(), rules=load_rules()).cluster.default.mode is mode


@pytest.mark.parametrize("effect", list(TaintEffect))
@pytest.mark.parametrize(
    "key", ["gpu.infra.status/hardware-fault", "gpuward.io/standby", "example.com/a-pool", "example.com/a-person"]
)
def test_the_agent_stays_on_its_node_whatever_taint_that_wears(
    capsys: pytest.CaptureFixture[str], key: str, effect: TaintEffect
) -> None:
    assert daemon_set_of(of_kind(printed(capsys), "DaemonSet")).bears(Taint(key, str(effect)))


def test_settings_that_are_wrong_are_not_installed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "gpuward.toml"
    file.write_text('profile = "wrong"\n', "utf-8")
    with pytest.raises(UsageError, match="wrong"):
        ask(capsys, "install", "--config", str(file))
    with pytest.raises(UsageError, match="not both"):
        ask(capsys, "install", "--config", str(file), "--mode", "observe")


@pytest.mark.parametrize("image", ["two words", "", "-x", "a\nb", "x" * 600])
def test_an_image_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], image: str) -> None:
    if not image:
        assert of_image(printed(capsys)) == of_image(printed(capsys, "--image", image))
        return
    with pytest.raises(UsageError, match="no image"):
        ask(capsys, "install", f"--image={image}")


def of_image(objects: list[dict[str, Any]]) -> str:
    return str(of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("namespace", ["Ward", "a b", "-a", "a" * 64, "", "a\n", "../x"])
def test_a_namespace_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], namespace: str) -> None:
    for command in ("install", "uninstall"):
        with pytest.raises(UsageError, match="cannot be a namespace"):
            ask(capsys, command, f"--namespace={namespace}")


def test_programs_run_the_image_that_was_named_with_words_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "--image", "registry.example.com/gpuward@sha256:1a")
    agent = of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    controller = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert {agent["image"], controller["image"]} == {"registry.example.com/gpuward@sha256:1a"}
    assert agent["args"] == ["agent", "--node", "$(NODE_NAME)", "--namespace", "gpuward-system"]
    words = ["controller", "--config", "/etc/gpuward/gpuward.toml", "--metrics-port", "9464"]
    assert controller["args"] == [*words, "--namespace", "gpuward-system"]
    asked = build_parser().parse_args(controller["args"])
    assert [one["containerPort"] for one in controller["ports"]] == [asked.metrics_port]


def test_programs_look_for_their_leases_where_they_are_installed(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "--namespace", "ward")
    for kind in ("DaemonSet", "Deployment"):
        words = of_kind(objects, kind)["spec"]["template"]["spec"]["containers"][0]["args"]
        assert build_parser().parse_args(words).namespace == "ward"


def test_the_controller_is_probed_and_scraped_where_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    template = of_kind(printed(capsys), "Deployment")["spec"]["template"]
    controller = template["spec"]["containers"][0]
    (port,) = controller["ports"]
    probes = {name: controller[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/healthz", "port": port["name"]},
        "readinessProbe": {"path": "/readyz", "port": port["name"]},
    }
    assert template["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
    }


def test_the_namespace_is_gpuwards_own_unless_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert of_kind(printed(capsys), "Namespace")["metadata"]["name"] == Installation().namespace == "gpuward-system"


def test_no_host_of_an_image_is_chosen_for_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    assert "/" not in of_image(printed(capsys))


def test_uninstall_prints_the_deletion_of_all_that_install_prints_backwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ask(capsys, "uninstall", "--print").out.splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert commands == [deletion_of(one) for one in reversed(printed(capsys))]
    assert commands[-1] == "kubectl delete --ignore-not-found namespaces gpuward-system"
    assert commands[0].endswith("poddisruptionbudgets.policy gpuward-controller --namespace gpuward-system")


def test_nothing_is_taken_away_without_a_yes(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        done = runner.run(_uninstalled(tmp_path / "kubeconfig"))
    assert done == (2, "gpuward uninstall: nobody said yes; say it at the terminal, or give --yes\n")


def test_without_a_cluster_nobody_is_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no kubeconfig at"):
        ask(capsys, "uninstall", "--kubeconfig", str(tmp_path / "nowhere"))


async def _uninstalled(kubeconfig: Path) -> tuple[int | None, str]:
    """Return the exit code and the complaint of the command where nobody is at the terminal."""
    async with front.opened(pretend_cluster(SystemClock(), asyncio.sleep)) as door:
        door.write_kubeconfig(kubeconfig)
        words = ("-m", "gpuward", "uninstall", "--kubeconfig", str(kubeconfig))
        process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=DEVNULL, stderr=PIPE)
        _, said = await process.communicate()
        return process.returncode, said.decode()
