"""What the people who run a fleet chose: one document, checked whole."""

from gpuward.settings.document import (
    TABLES,
    AgentSettings,
    Settings,
    SettingsError,
    grading,
    read_settings,
    terms_of,
)
from gpuward.settings.reading import USER_OPTIONS

__all__ = [
    "TABLES",
    "USER_OPTIONS",
    "AgentSettings",
    "Settings",
    "SettingsError",
    "grading",
    "read_settings",
    "terms_of",
]
