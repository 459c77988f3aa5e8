"""The one family of errors that `abps` raises on purpose.

Every message says what was expected, what came, and what to do about it. Anything else that reaches a user is a bug.
"""

__all__ = ["AbpsError", "ConfigError", "NumericsError", "RunError", "ShapeError", "TaskError"]


class AbpsError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback."""


class ConfigError(AbpsError):
    """A setting, an argument or a name is not one the software knows or can use."""


class ShapeError(AbpsError):
    """An array has another shape or dtype than the contract says."""


class NumericsError(AbpsError):
    """A computation could not be carried out in floating point; the message carries the offending numbers."""


class TaskError(AbpsError):
    """An environment is missing, unsupported, or broke its own contract."""


class RunError(AbpsError):
    """A run directory is missing, damaged, in use, or already finished."""
