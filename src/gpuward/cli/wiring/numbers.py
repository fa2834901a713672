"""Where the numbers of a controller are shown: the libraries for it are loaded only where somebody asks for them."""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gpuward.controller.numbers import Health, Numbers

if TYPE_CHECKING:
    from gpuward.adapters.prometheus import Exposition
    from gpuward.adapters.web import Reply


def exposition() -> "Exposition":
    """Return what counts, and shows it."""
    from gpuward.adapters.prometheus import Exposition  # noqa: PLC0415  as the module says

    return Exposition()


@contextlib.asynccontextmanager
async def shown(counted: "Exposition", numbers: Numbers, port: int, *, host: str | None = None) -> AsyncIterator[int]:
    """Serve the numbers and how it stands while the body runs, and give the port. Raises Refused."""
    from gpuward.adapters.web import Reply, served  # noqa: PLC0415  as the module says

    def metrics(accept: str) -> "Reply":
        page = counted.page(accept)
        return Reply(page.body, page.content_type)

    def told(health: Health) -> "Reply":
        return Reply(f"{health.says}\n".encode(), good=health.good)

    counted.look_at(numbers.samples)
    pages = {
        "/metrics": metrics,
        "/healthz": lambda _: told(numbers.health()),
        "/readyz": lambda _: told(numbers.readiness()),
    }
    async with served(pages, port, host=host) as at:
        yield at
