"""The nouns: frozen values, checked when built. Nothing here reads, writes or decides."""
