"""Pretend machines: GPUs by model, seen through a stub nvidia-smi and NVML and a kernel log. No port is implemented here."""
