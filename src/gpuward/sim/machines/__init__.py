"""Pretend machines: GPUs behind a stub nvidia-smi, a stub NVML and a kernel log. No port is implemented here."""
