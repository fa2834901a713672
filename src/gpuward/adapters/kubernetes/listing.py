"""Lists, page by page. What is kept of an object is the caller's to say, and nothing else of it is held."""

from collections.abc import Callable

from gpuward.adapters.kubernetes.answer import Answer, Ask, error_of, strange
from gpuward.adapters.kubernetes.wire import Deadline, Wire
from gpuward.ports import Listed, Project

_BEGINNINGS = 3
_GONE = 410

AskPage = Callable[[str], Ask]
"""Returns the request for the page that a token continues with, for the first page that is empty."""


async def read_list(wire: Wire, ask_page: AskPage, *, project: Project, deadline: Deadline) -> Listed:
    """Return all pages as one list.

    When the server forgets the version of the first page before the last is read, the list is begun again. It offers to
    go on with a newer version instead, but what changed between the two would be in neither, nor in a watch that
    follows. After the third beginning that is Conflict.
    """
    for left in reversed(range(_BEGINNINGS)):
        found = await _pages(wire, ask_page, project=project, deadline=deadline)
        if isinstance(found, Listed):
            return found
        if not left:
            raise error_of(ask_page(""), found.status())
    raise AssertionError("the last beginning returns or raises")


async def _pages(wire: Wire, ask_page: AskPage, *, project: Project, deadline: Deadline) -> Listed | Answer:
    """Return the list, or the answer that its version is forgotten."""
    items: list[object] = []
    token, version = "", ""
    while True:
        ask = ask_page(token)
        answer = await wire.call(ask, deadline)
        if answer.code == _GONE:
            return answer
        if not answer.is_good:
            raise error_of(ask, answer.status())
        page = answer.document(ask)
        try:
            items.extend(map(project, page["items"] or ()))
            version = version or str(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue") or ""
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise strange(ask, "is no list") from error
        if not token:
            return Listed(tuple(items), version)
