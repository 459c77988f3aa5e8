"""The one family of errors that `abps` raises on purpose.

Every message says what was expected, what came, and what to do about it. Anything else that reaches a user is a bug.
"""

__all__ = ["AbpsError", "ConfigError", "NumericsError", "RunError", "ShapeError", "TaskError"]


class AbpsError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback.

    Example:
        >>> import abps
        >>> try:
        ...     abps.search_config("gibbo")
        ... except abps.AbpsError as error:
        ...     print(error)
        unknown search 'gibbo'; did you mean 'gibo'?
    """


class ConfigError(AbpsError):
    """A setting, an argument or a name is not one the software knows or can use.

    Example:
        >>> import abps
        >>> abps.BudgetConfig(episodes=-1)
        Traceback (most recent call last):
        abps.errors.ConfigError: episodes must not be negative
    """


class ShapeError(AbpsError):
    """An array has another shape or dtype than the contract says.

    Example:
        >>> import abps
        >>> abps.Trajectory.build([[0.0]], [[0.0]], [1.0], terminated=True, truncated=False)
        Traceback (most recent call last):
        abps.errors.ShapeError: observations must have shape (2, s), one more than the 1 rewards, got (1, 1)
    """


class NumericsError(AbpsError):
    """A computation could not be carried out in floating point; the message carries the offending numbers.

    Example:
        >>> import abps
        >>> issubclass(abps.NumericsError, abps.AbpsError)
        True
    """


class TaskError(AbpsError):
    """An environment is missing, unsupported, or broke its own contract.

    Example:
        >>> import abps
        >>> abps.make_task("CartPole-v1")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        abps.errors.TaskError: task 'CartPole-v1' has the action space Discrete(2); abps supports vector ...
    """


class RunError(AbpsError):
    """A run directory is missing, damaged, in use, or already finished.

    Example:
        >>> from pathlib import Path
        >>> from abps.run.directory import read_settings
        >>> read_settings(Path("nowhere"))
        Traceback (most recent call last):
        abps.errors.RunError: there is no run in nowhere (no config.yaml)
    """
