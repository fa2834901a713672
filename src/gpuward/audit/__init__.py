"""Security and checklist: rules over facts of a cluster or host, to findings. Pure."""
