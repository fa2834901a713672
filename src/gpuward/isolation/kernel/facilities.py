"""The syslog facility words and their numbers (RFC 5424, table 1). Which facility may act is not here."""

KERN = "kern"
USER = "user"
WORDS = (
    KERN,
    USER,
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "audit",
    "alert",
    "clock",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
)


def facility_word(number: int) -> str:
    """Return the word of facility `number`; one beyond the table is spelled out, so that it is never taken for kern."""
    return WORDS[number] if 0 <= number < len(WORDS) else f"facility{number}"


def facility_of_priority(priority: int) -> str:
    """Return the facility word of a `<pri>` number, which is facility * 8 + severity."""
    return facility_word(priority >> 3)
