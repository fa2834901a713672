"""How figures are put in words: quantiles, and whether a target is met."""

from collections.abc import Sequence


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return what half of them stay within, and 99 of 100."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


def said(found: tuple[float, float]) -> str:
    """Return quantiles in seconds as milliseconds."""
    return f"p50 {found[0] * 1000:.0f}, p99 {found[1] * 1000:.0f}"


def at_most(measured: float, most: float, what: str = "") -> str:
    """Return the target of `what`, and whether it is met."""
    return f"{what}<= {most:g}: {'met' if measured <= most else 'not met'}"


def at_least(measured: float, least: float) -> str:
    """Return the target, and whether it is met."""
    return f">= {least:g}: {'met' if measured >= least else 'not met'}"
