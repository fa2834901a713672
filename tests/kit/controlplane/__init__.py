"""A real Kubernetes control plane for tests: built once, started and ended by the tests. Nothing is pretended here."""
