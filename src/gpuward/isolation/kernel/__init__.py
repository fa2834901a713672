"""Kernel lines made into records: frames, stamps, the NVIDIA driver's texts. What a record means is not here."""
