"""How many there are, as people say it: 1 GPU, 2 GPUs. Every sentence with a count says it by this."""


def many(count: float, noun: str, plural: str = "") -> str:
    """Return the count with its noun; `plural` where that is not the noun and an s."""
    number = str(count) if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun if count == 1 else plural or f'{noun}s'}"


def verb(count: float, one: str, more: str) -> str:
    """Return the form of a verb that goes with so many."""
    return one if count == 1 else more
