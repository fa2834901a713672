"""What a kubelet has given to pods: devices by the ids of their plugin. Which GPU an id names is told elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """Devices of one resource, such as `nvidia.com/gpu`, that one container of a pod has."""

    namespace: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    uids: tuple[str, ...] = ()
    """UIDs of the pods of this name that the node knows: none where it does not tell, several when one came anew."""
