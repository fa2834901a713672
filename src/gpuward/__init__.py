"""gpuward reads GPU faults in the kernel log: what happened, how bad it is, whose fault it was, what to do."""

__version__ = "0.1.0"
