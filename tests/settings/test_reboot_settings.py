"""Whether nodes may be rebooted, as the settings say it: off by default, checked whole, one's own template read."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpuward.cli.wiring import UsageError
from gpuward.cli.wiring.rebooting import reboot_terms
from gpuward.controller.reboot import BOOT, NODE, job
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.model.objects.values import ObjectError
from gpuward.settings import SettingsError, read_settings
from gpuward.settings.reboot import RebootTerms
from tests.kit.lives import a_case


def read(text: str) -> RebootTerms:
    return read_settings(text, name="a.toml", book=load(), rules=load_rules()).reboot


def test_nobody_is_rebooted_unless_a_person_says_so() -> None:
    assert not read("").enabled
    assert not read("[reboot]\nmost_a_day = 2").enabled


def test_what_is_said_is_taken() -> None:
    said = read('[reboot]\nenabled = true\nimage = "a/b:1"\nmost_a_day = 3\ndeadline_seconds = 60')
    assert said == RebootTerms(enabled=True, image="a/b:1", most_a_day=3, deadline_seconds=60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("enabled = true", "needs an image, or a template_file"),
        ('enabled = "yes"', "true or false"),
        ("most_a_day = 4", "1 to 3"),
        ("most_a_day = true", "1 to 3"),
        ('image = "a b"', "must be an image"),
        ('template_file = ""', "the path of a file"),
        ("deadline = 3", "deadline"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match="reboot") as wrong:
        read(f"[reboot]\n{text}")
    assert says in str(wrong.value)


TEMPLATE = "spec: {template: {spec: {containers: [{name: r, image: 'site/r:1', env: [{name: A, value: b}]}]}}}"


def test_a_template_of_the_users_is_read_and_told_which_boot_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "reboot.yaml"
    file.write_text(TEMPLATE)
    terms = reboot_terms(RebootTerms(enabled=True, template_file=str(file)))
    made = job("gpuward-reboot-1", a_case(boot="abcd1234"), namespace="ours", terms=terms)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "site/r:1"
    assert [one["name"] for one in container["env"]] == ["A", BOOT, NODE]
    assert made["metadata"]["namespace"] == "ours"


@pytest.mark.parametrize(
    "text",
    ["[1]", "spec: 3", "spec: {template: {spec: {}}}", "spec: {template: {spec: {containers: [3]}}}", "a: [", None],
)
def test_what_is_no_template_is_refused_before_anything_runs(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "reboot.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=r"reboot\.yaml"):
        reboot_terms(RebootTerms(enabled=True, template_file=str(file)))
    off = RebootTerms(enabled=False, template_file=str(file))
    assert reboot_terms(off) == off, "what is not wanted is not read"


def test_a_job_of_a_broken_template_is_not_made() -> None:
    terms = replace(RebootTerms(), template={"spec": {}})
    with pytest.raises(ObjectError):
        job("gpuward-reboot-1", a_case(boot="b"), namespace="ours", terms=terms)
