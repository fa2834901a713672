"""`gpuward install`: prints what a cluster needs, and changes nothing. What that is, is in cli.manifests."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuward.cli import wiring
from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import Installation, settings_of
from gpuward.cli.objects import dumps
from gpuward.cli.times import shortened
from gpuward.model.case import Mode
from gpuward.model.objects.limits import NAMESPACE

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}", re.ASCII)


def install(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    objects = manifests(_installation(asked))
    sys.stdout.write(_as_list(objects) if asked.json else _as_yaml(objects))
    return 0


def checked_namespace(name: str) -> str:
    """Return the name of a namespace. Raises UsageError when no namespace can be called so."""
    if len(name) > NAMESPACE.most or not re.fullmatch(NAMESPACE.pattern.strip("^$"), name, re.ASCII):
        raise wiring.UsageError(f"{shortened(name)!r} cannot be a namespace; it is up to 63 of a-z, 0-9 and `-`")
    return name


def _installation(asked: argparse.Namespace) -> Installation:
    image = asked.image or Installation().image
    if not _IMAGE.fullmatch(image):
        raise wiring.UsageError(f"{image!r} is no image; it is called such as registry.example.com/gpuward:0.1")
    settings, reboot = _settings(asked)
    return Installation(
        namespace=checked_namespace(asked.namespace), image=image, settings=settings, reboot=reboot or asked.reboot
    )


def _settings(asked: argparse.Namespace) -> tuple[str, bool]:
    """Return the settings document that is installed, and whether it enables reboots; the user's is checked first."""
    if asked.config is None:
        return settings_of(Mode(asked.mode or Mode.OBSERVE)), False
    if asked.mode is not None:
        raise wiring.UsageError("say the mode in the settings (mode, under [controller]) or by --mode, not both")
    settings, _ = wiring.judgement(asked.config, None)
    return Path(asked.config).read_text("utf-8-sig"), settings.reboot.enabled


def _as_list(objects: Sequence[Any]) -> str:
    return f"{dumps({'apiVersion': 'v1', 'kind': 'List', 'items': list(objects)})}\n"


def _as_yaml(objects: Sequence[Any]) -> str:
    """Return the objects as documents of one YAML stream, each text of several lines as such."""
    import yaml  # noqa: PLC0415  only this command needs it

    class Plain(yaml.SafeDumper):
        """Spells every value out where it stands."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the name is pyyaml's
            """Return True: an alias would be hard to read, and a person is to read it."""
            return True

    Plain.add_representer(str, _text)
    return "".join(
        f"---\n{yaml.dump(one, Dumper=Plain, sort_keys=False, width=120, allow_unicode=True)}" for one in objects
    )


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)
