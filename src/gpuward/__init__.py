"""gpuward sees a GPU fault in the kernel log and says what happened, how bad it is, whose fault it was and what to do."""

__version__ = "0.1.0"
