"""The objects that gpuward keeps in a cluster: GPUNode, GPUFault, GPUCase, StandbyPool. Who writes them is not here."""
