"""The settings of a cluster: what a pool does not say is as for all, and every mistake is named with its place."""

import time

import pytest

from gpuward.cli.controller import cluster_terms
from gpuward.controller.terms import Terms
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.evacuation import EvictionTerms, Scope
from gpuward.isolation.fabric import FABRIC_KEYS
from gpuward.isolation.fleet import FleetBrake
from gpuward.model.case import Mode
from gpuward.model.level import FaultClass
from gpuward.model.objects.owned import Taint
from gpuward.settings import SettingsError, read_settings
from gpuward.settings.pools import ClusterSettings, LosingTerms

WHOLE = """
[controller]
mode = "isolate"
probation_seconds = 60
taint_key = "example.com/sick"
taint_effect = "NoExecute"
lost_seconds = 120
proof_seconds = 900.5
rack_label = "example.com/rack"
fabric_labels = ["example.com/leaf", "example.com/spine"]
[eviction]
excluded_namespaces = ["monitoring"]
grace_seconds = 90
save_seconds = 45
[brake.pool]
nodes = 3
[budget]
gpus = 8
hardware = 4
[pools.training]
selector = {"gpu-pool" = "training"}
mode = "repair"
approval = true
[pools.training.eviction]
victims = "sick-gpu"
force = true
[pools.training.brake.rack]
least = 1
window_seconds = 60
[pools.training.budget]
gpus = 2
[pools.serving]
selector = {"gpu-pool" = "serving", "zone" = "a"}
"""


def read(text: str) -> ClusterSettings:
    return read_settings(text, name="a.toml", book=load(), rules=load_rules()).cluster


def test_a_pool_says_only_what_is_different_there() -> None:
    found = read(WHOLE)
    training, serving = found.pools
    assert (found.default.mode, training.mode, serving.mode) == (Mode.ISOLATE, Mode.REPAIR, Mode.ISOLATE)
    assert (found.default.approval, training.approval, serving.approval) == (False, True, False)
    assert training.eviction == EvictionTerms(
        scope=Scope.SICK_GPU, excluded=frozenset({"monitoring"}), grace_seconds=90, save_seconds=45, force=True
    )
    assert serving.eviction == EvictionTerms(excluded=frozenset({"monitoring"}), grace_seconds=90, save_seconds=45)
    assert training.brakes.pool == serving.brakes.pool == FleetBrake(nodes=3)
    assert training.brakes.rack == FleetBrake(share=0.5, least=1, window_seconds=60)
    assert serving.brakes.rack == FleetBrake(share=0.5)
    assert (training.budget.gpus, serving.budget.gpus) == (2, 8)
    assert training.budget.by_class == {FaultClass.HARDWARE: 4}
    assert training.probation_seconds == 60
    assert found.taint == Taint("example.com/sick", "NoExecute")
    assert found.rack_label == "example.com/rack"
    assert found.fabric_labels == ("example.com/leaf", "example.com/spine")
    assert read("").fabric_labels == FABRIC_KEYS
    assert found.losing == LosingTerms(lost_seconds=120, back_seconds=60, proof_seconds=900.5)
    assert read("").losing == LosingTerms()


def test_a_node_is_of_the_first_pool_that_takes_it() -> None:
    training, serving = read(WHOLE).pools
    assert training.takes({"gpu-pool": "training", "other": "x"})
    assert not training.takes({})
    assert not serving.takes({"gpu-pool": "serving"})


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[controller]\nfabric_labels = 'x'", 2, "controller.fabric_labels: must be a list of the keys of labels"),
        ("[controller]\nfabric_labels = ['no key!']", 2, "controller.fabric_labels: must be a list of the keys"),
        ("[pools.default]\nselector = {a = 'b'}", 1, "pools.default: must be small letters"),
        ("[pools.x]\nmode = 'repair'", 1, "pools.x: must have a selector"),
        ("[pools.x]\nselector = {}", 2, "pools.x.selector: must be labels and their values"),
        ("[pools.x]\nselector = {'a b' = 'c'}", 2, "pools.x.selector: must be labels"),
        ("[pools.x]\nselector = {a = 1}", 2, "pools.x.selector: must be labels"),
        ("[pools.x]\nselector = {a = 'b'}\nvictims = 'gpu'", 3, "pools.x.victims: cannot be set here"),
        (
            "[pools.x]\nselector = {a = 'b'}\n[pools.x.eviction]\nvictims = 'all'",
            4,
            "pools.x.eviction.victims: must be",
        ),
        ("[pools.x]\nselector = {a = 'b'}\n[pools.x.brake.node]\nshare = 1", 3, "pools.x.brake.node: cannot be set"),
        ("[pools]\nx = 1", 2, "pools.x: must be a table"),
        ("pools = 1", 1, "pools: must be tables"),
        ("[controller]\ntaint_key = 'a b'", 2, "controller.taint_key: must be the key of a taint"),
        ("[controller]\ntaint_key = 'node.kubernetes.io/unschedulable'", 2, "controller.taint_key: must be the key of"),
        ("[controller]\ntaint_key = 'gpuward.io/standby'", 2, "controller.taint_key: must be the key of a taint"),
        ("[controller]\ntaint_effect = 'None'", 2, "controller.taint_effect: must be one of NoSchedule"),
        ("[controller]\nmode = 'fix'", 2, "controller.mode: must be one of observe"),
        ("[eviction]\ngrace_seconds = 1.5", 2, "eviction.grace_seconds: must be a whole number"),
        ("[eviction]\nexcluded_namespaces = ['A']", 2, "eviction.excluded_namespaces: must be a list of namespaces"),
        ("[brake.pool]\nleast = 0", 2, "brake.pool.least: must be a whole number, 1 or more"),
        ("[brake.rack]\nshare = 2", 2, "brake.rack.share: must be a number above 0"),
        ("[eviction]\ngrace_seconds = 99999999999999999999", 2, "eviction.grace_seconds: must be a whole number"),
        ("[eviction]\nsave_seconds = 1e308", 2, "eviction.save_seconds: must be"),
        (
            "[brake.rick]\nshare = 0.5",
            1,
            "brake.rick: cannot be set here; allowed are kind, pool, rack, share, window_seconds",
        ),
        ("brake = 1", 1, "brake: must be a table"),
        ("[controller]\nlost_seconds = 19", 2, "controller.lost_seconds: must be a number of seconds, 20 to 86400"),
        ("[controller]\nback_seconds = 9.9", 2, "controller.back_seconds: must be a number of seconds, 10 to 86400"),
        ("[controller]\nproof_seconds = 1e9", 2, "controller.proof_seconds: must be a number of seconds, 60 to 86400"),
        ("[controller]\nlost_seconds = true", 2, "controller.lost_seconds: must be a number of seconds"),
        ("[pools.x]\nselector = {a = 'b'}\nlost_seconds = 60", 3, "pools.x.lost_seconds: cannot be set here"),
    ],
)
def test_every_mistake_is_named_with_its_line_and_what_is_allowed(text: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(text)
    [told] = str(caught.value).splitlines()
    assert told.startswith(f"a.toml, line {line}, {words}")


def test_mistakes_are_told_in_the_order_of_their_lines() -> None:
    with pytest.raises(SettingsError) as caught:
        read("[pools]\na = 3\n[levels]\n'xid:92' = 'P9'\n[pools.z.brake]\nx = 1\n[controller]\nmode = 1\n[nothing]\n")
    told = str(caught.value).splitlines()
    assert [one.partition(":")[0].removeprefix("a.toml, line ") for one in told] == [
        "2, pools.a",
        "4, levels.xid",
        "5, pools.z",
        "6, pools.z.brake.x",
        "8, controller.mode",
        "9, nothing",
    ]


def test_a_document_with_a_mistake_in_every_line_is_told_soon() -> None:
    began = time.process_time()
    with pytest.raises(SettingsError) as caught:
        read("[levels]\n" + "".join(f"'xid:{code}' = 'P9'\n" for code in range(4000)))
    last = str(caught.value).splitlines()[-1]
    assert last.startswith("a.toml, line 4001, levels.xid:3999: 'P9' is unknown")
    assert time.process_time() - began < 30.0, "the document was read anew for each of its mistakes"


@pytest.mark.parametrize("name", ["reboot", "controller", "agent", "levels", "classes", "rules"])
def test_what_is_of_the_whole_cluster_is_no_pools_and_is_told_so(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(f"[pools.z]\nselector = {{a = 'b'}}\n[pools.z.{name}]\n")
    fields = "approval, brake, budget, eviction, mode, probation_seconds, selector"
    assert str(caught.value) == (
        f"a.toml, line 3, pools.z.{name}: cannot be set here; allowed are {fields}; [{name}] is of the whole cluster"
    )


def test_what_is_set_is_what_the_controller_goes_by() -> None:
    chosen = read_settings(WHOLE, name="a.toml", book=load(), rules=load_rules())
    terms = cluster_terms(chosen, None, namespace="gpuward")
    assert (terms.lost_seconds, terms.back_seconds, terms.proof_seconds) == (120, 60, 900.5)
    assert (terms.mode, terms.rack_label, terms.case_seconds) == (Mode.ISOLATE, "example.com/rack", 90 * 86_400)
    observed = cluster_terms(chosen, "observe", namespace="gpuward")
    assert {pool.mode for pool in observed.pools} | {observed.mode} == {Mode.OBSERVE}


def test_without_settings_the_controller_waits_as_it_always_did() -> None:
    chosen = read_settings("", name="a.toml", book=load(), rules=load_rules())
    terms, usual = cluster_terms(chosen, None, namespace="gpuward"), Terms()
    assert (terms.lost_seconds, terms.back_seconds) == (usual.lost_seconds, usual.back_seconds)
    assert terms.proof_seconds == usual.proof_seconds
