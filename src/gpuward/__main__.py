"""`python -m gpuward` is the gpuward command."""

import sys

from gpuward.cli.main import run

sys.exit(run())
