"""gpuward's own programs, run beside what measures them."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuward.cli.manifests.installation import CONTROLLER

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))  # the real control plane is the tests' kit

from tests.install.site import Site  # noqa: E402  only from there

_OPEN = """
[controller]
mode = "isolate"
[brake]
share = 1.0
[brake.pool]
least = 1000000
[brake.rack]
least = 1000000
[brake.kind]
least = 1000000
"""


@contextmanager
def controlling(site: Site, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a controller in mode isolate without a brake, while the body runs."""
    settings = folder / "gpuward.toml"
    settings.write_text(_OPEN, encoding="utf-8")
    user = site.account(CONTROLLER)
    words = ("controller", "--kubeconfig", str(user.kubeconfig), "--config", str(settings))
    with running(words, folder / "controller.log", None) as process:
        yield process


@contextmanager
def running(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a gpuward command while the body runs; what it says goes to `log`. Raises SystemExit if it ended by then."""
    with (
        log.open("wb") as said,
        subprocess.Popen(  # noqa: S603  our own command
            [sys.executable, "-m", "gpuward", *words], env=environment, stdout=said, stderr=said
        ) as process,
    ):
        try:
            yield process
            if process.poll() is not None:
                raise SystemExit(f"gpuward {words[0]} ended: {log.read_text('utf-8')[-2000:]}")
        finally:
            process.kill()
