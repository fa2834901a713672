"""The definitions of our kinds of objects, as apiextensions.k8s.io/v1 wants them. Schemas come from the model."""

from typing import Any

from gpuward.cli.manifests.installation import named
from gpuward.model.objects.kinds import KINDS, Column, ObjectKind, object_schema

CATEGORY = "gpuward"
"""`kubectl get gpuward` lists objects of all our kinds."""


def definitions() -> tuple[dict[str, Any], ...]:
    """Return the definition of each kind."""
    return tuple(map(definition, KINDS))


def definition(kind: ObjectKind) -> dict[str, Any]:
    """Return the definition of a kind."""
    resource = kind.resource
    version: dict[str, Any] = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(kind)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(map(_column, kind.columns)),
    }
    if kind.searched:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.searched]
    spec = {
        "group": resource.group,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "names": {
            "plural": resource.plural,
            "singular": resource.kind.lower(),
            "kind": resource.kind,
            "listKind": f"{resource.kind}List",
            "shortNames": [kind.short],
            "categories": [CATEGORY],
        },
        "versions": [version],
    }
    name = f"{resource.plural}.{resource.group}"
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=spec)


def _column(column: Column) -> dict[str, Any]:
    shown = {"name": column.name, "type": column.form, "jsonPath": column.path}
    return {**shown, "priority": 1} if column.wide else shown
