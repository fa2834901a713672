"""A pretend cluster: an API server in memory, told apart from a real one by no question that gpuward asks."""
