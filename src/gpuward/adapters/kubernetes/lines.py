"""The lines of a stream that comes in pieces. What they say is not read here."""

LONGEST_BYTES = 16 * 1024 * 1024
"""etcd takes objects of 1.5 MiB; in JSON, escaped, they may be several times as long."""


class Lines:
    """Puts pieces together to lines, each of at most `longest` bytes."""

    def __init__(self, longest: int = LONGEST_BYTES) -> None:
        self._longest = longest
        self._begun = bytearray()

    @property
    def has_begun(self) -> bool:
        """Whether a line came in part."""
        return bool(self._begun)

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that `piece` ends, without their ends. Raises ValueError when one is too long."""
        *ended, rest = piece.split(b"\n")
        lines = []
        for part in ended:
            self._grow(part)
            lines.append(bytes(self._begun))
            self._begun.clear()
        self._grow(rest)
        return lines

    def _grow(self, part: bytes) -> None:
        if len(self._begun) + len(part) > self._longest:
            raise ValueError(f"a line is longer than {self._longest} bytes")
        self._begun += part
