"""The Job by which a node is rebooted, where a person has a template of his own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuward.cli.wiring import UsageError
from gpuward.controller.reboot import check_template
from gpuward.model.objects.values import ObjectError
from gpuward.settings.reboot import RebootTerms


def reboot_terms(chosen: RebootTerms) -> RebootTerms:
    """Return the settings of reboots with the user's template read. Raises UsageError when it is no Job."""
    if not (chosen.enabled and chosen.template_file):
        return chosen
    template = _read(chosen.template_file)
    try:
        check_template(template)
    except ObjectError as error:
        raise UsageError(f"{chosen.template_file}: {error}") from error
    return replace(chosen, template=template)


def _read(name: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415  only who has a template of his own needs it

    try:
        found = yaml.safe_load(Path(name).read_text("utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise UsageError(f"the template of the Job that reboots a node cannot be read: {name}: {error}") from error
    if not isinstance(found, Mapping):
        raise UsageError(f"{name} is no template of a Job: it must be a table, in YAML or JSON")
    return found
