"""What a user may do, as RBAC has it. Who asks is said elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.resource import SELF_REVIEWS, Resource

_ANY = "*"
_VERBS = {"get": "read"}
_MANY = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the authorizer sees it; `name` is empty where none is named, as in a CREATE."""

    verb: str
    resource: Resource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @property
    def doing(self) -> str:
        """Return how people are told of it, such as `patch status of Node node-17`."""
        verb = "evict" if self.subresource == "eviction" else _VERBS.get(self.verb, self.verb)
        if self.verb in _MANY:
            return f"{verb} the {self.resource.plural}" + (f" of {self.namespace}" if self.namespace else "")
        part = f" {self.subresource} of" if self.subresource == "status" else ""
        where = f"{self.namespace}/" if self.namespace and self.resource.namespaced else ""
        return f"{verb}{part} {self.resource.kind} {where}{self.name}".rstrip()

    @property
    def plural(self) -> str:
        """Return the resource as a rule names it, such as `pods/eviction`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role; a star is anything. No names are all names, no namespace the whole cluster."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str] = frozenset()
    namespace: str | None = None

    def allows(self, asked: Asked) -> bool:
        """Return whether this rule alone allows it."""
        subresource = f"*/{asked.subresource}" if asked.subresource else asked.plural
        return (
            not self.verbs.isdisjoint({asked.verb, _ANY})
            and not self.groups.isdisjoint({asked.resource.group, _ANY})
            and not self.resources.isdisjoint({asked.plural, subresource, _ANY})
            and (not self.names or asked.name in self.names)
            and self.namespace in (None, asked.namespace)
        )


def rules_of(role: Mapping[str, Any], *, namespace: str | None = None) -> tuple[Rule, ...]:
    """Return the rules of a Role or ClusterRole as its JSON has them, bound in one namespace or in all."""
    return tuple(
        Rule(
            verbs=frozenset(row["verbs"]),
            groups=frozenset(row.get("apiGroups", ())),
            resources=frozenset(row.get("resources", ())),
            names=frozenset(row.get("resourceNames", ())),
            namespace=namespace,
        )
        for row in role.get("rules") or ()
    )


@dataclass(frozen=True, slots=True)
class User:
    """Someone who may do what any of the rules allows."""

    name: str
    rules: tuple[Rule, ...]

    def may(self, asked: Asked) -> bool:
        """Return whether that is allowed; who he is everybody may ask."""
        return asked.resource == SELF_REVIEWS or any(rule.allows(asked) for rule in self.rules)


ADMIN = User("admin", (Rule(frozenset({_ANY}), frozenset({_ANY}), frozenset({_ANY})),))
