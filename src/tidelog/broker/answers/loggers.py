"""The loggers of this process and their levels, as Kafka's tools see and set them (KIP-412).

Levels hold until the process ends. What a line of the journal comes from is its logger:
`tidelog.events` for what happens in the cluster, the others for the parts they are named after.
"""

import logging
from collections.abc import Sequence

from tidelog.core.errors import Error
from tidelog.core.metadata.config_operations import DELETE, SET, Operation
from tidelog.core.metadata.configs import ConfigError

ROOT = "root"
OURS = ("tidelog", "asyncio")
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
USUAL_LEVEL = logging.INFO
"""Of the loggers that the journal listens to (`observe.journal`)."""


def levels() -> dict[str, str]:
    """Every logger of ours with the level in force."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in OURS]
    found = {name: _level_name(logging.getLogger(name)) for name in sorted(names)}
    return {ROOT: _level_name(logging.root), **found}


def change(operations: Sequence[Operation], *, validate_only: bool) -> None:
    """All of them, or none: raises ConfigError."""
    known = levels()
    for name, kind, value in operations:
        if kind not in (SET, DELETE):
            reason = f"{name}: levels of loggers can be set and deleted, nothing else"
            raise ConfigError(Error.INVALID_REQUEST, reason)
        if name not in known:
            raise ConfigError(Error.INVALID_CONFIG, f"there is no logger {name!r}")
        if kind == SET and value not in LEVELS:
            reason = f"the level of {name} must be one of {', '.join(LEVELS)}, not {value!r}"
            raise ConfigError(Error.INVALID_CONFIG, reason)
        if kind == DELETE and name == ROOT:
            raise ConfigError(Error.INVALID_REQUEST, "the root logger has to have a level")
    if validate_only:
        return
    for name, kind, value in operations:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        if kind == DELETE:
            logger.setLevel(USUAL_LEVEL if name in OURS else logging.NOTSET)
        else:
            assert value is not None, name
            logger.setLevel(LEVELS[value])


def _level_name(logger: logging.Logger) -> str:
    """Kafka has names for six levels; a level between two is called by the lower one."""
    level = logger.getEffectiveLevel()
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, 5))[1]
