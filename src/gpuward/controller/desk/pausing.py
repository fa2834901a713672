"""A person's brake on the whole fleet, and the word to go on. That nothing new is isolated meanwhile is decide's."""

from dataclasses import dataclass

from gpuward.controller.desk.ordering import TRIES
from gpuward.controller.desk.reading import Desk
from gpuward.model.objects.pause import PAUSE, Pause, pause_object, write_pause
from gpuward.model.resource import CONFIG_MAPS
from gpuward.ports import Conflict, Object, Refused, Unreachable


@dataclass(frozen=True, slots=True)
class Paused:
    """The pause as it stands now, and whether it was changed. `before`: how it was."""

    now: Pause
    before: Pause

    @property
    def changed(self) -> bool:
        """Whether this word changed anything."""
        return self.now.on is not self.before.on


async def pause(desk: Desk, *, by: str, because: str) -> Paused:
    """Let nothing new be isolated; a pause that stands is kept, with who began it. Raises as the cluster."""
    return await _set(desk, Pause(on=True, by=by, at=desk.now, because=because))


async def resume(desk: Desk) -> Paused:
    """Let the fleet go on. Raises as the cluster."""
    return await _set(desk, Pause(on=False))


async def _set(desk: Desk, wanted: Pause) -> Paused:
    for attempt in range(TRIES):
        before, found = await desk.pause()
        if before.on is wanted.on:
            return Paused(before, before)
        try:
            await _write(desk, wanted, found)
        except Conflict:
            await desk.pace.back_off(attempt + 1)
            continue
        return Paused(wanted, before)
    raise Unreachable(f"the ConfigMap {PAUSE} is changed by others all the time; try again")


async def _write(desk: Desk, wanted: Pause, found: Object | None) -> None:
    if found is None:
        try:
            await desk.cluster.create(CONFIG_MAPS, pause_object(wanted), namespace=desk.namespace)
        except Refused as error:
            raise Refused(
                f"there is no ConfigMap {PAUSE} in namespace {desk.namespace}, and it may not be made ({error}); "
                "`gpuward install` makes it, --namespace names another place"
            ) from error
        return
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    data = write_pause(wanted)
    change = {"op": "add", "path": "/data", "value": data} if data else {"op": "remove", "path": "/data"}
    await desk.cluster.patch(CONFIG_MAPS, PAUSE, [version, change], namespace=desk.namespace)
