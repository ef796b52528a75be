"""What a registry refuses: the HTTP status, and the finer code that clients of registries know."""

from collections.abc import Sequence
from typing import Final

INVALID_SCHEMA: Final = 42201
SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403


class RegistryError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, SUBJECT_NOT_FOUND, f"there is no subject {subject!r}")


def version_not_found(subject: str, version: object) -> RegistryError:
    return RegistryError(404, VERSION_NOT_FOUND, f"{subject!r} has no version {version}")


def schema_not_found(what: str = "the subject has no such schema") -> RegistryError:
    return RegistryError(404, SCHEMA_NOT_FOUND, what)


def subject_is_deleted(subject: str) -> RegistryError:
    return RegistryError(404, 40404, f"{subject!r} is deleted; permanent=true removes it for good")


def subject_not_deleted_first(subject: str) -> RegistryError:
    return RegistryError(404, 40405, f"delete {subject!r} without permanent=true first")


def version_is_deleted(subject: str, version: int) -> RegistryError:
    text = f"version {version} of {subject!r} is deleted; permanent=true removes it for good"
    return RegistryError(404, 40406, text)


def version_not_deleted_first(subject: str, version: int) -> RegistryError:
    text = f"delete version {version} of {subject!r} without permanent=true first"
    return RegistryError(404, 40407, text)


def no_level_of_its_own(subject: str) -> RegistryError:
    return RegistryError(404, 40408, f"{subject!r} has no compatibility level of its own")


def no_mode_of_its_own(subject: str) -> RegistryError:
    return RegistryError(404, 40409, f"{subject!r} has no mode of its own")


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, INVALID_SCHEMA, f"no valid schema: {reason}")


def invalid_version(text: str) -> RegistryError:
    return RegistryError(422, 42202, f"{text!r} is no version: 1 to 2147483647, or latest")


def invalid_level(text: object, levels: Sequence[str]) -> RegistryError:
    return RegistryError(422, 42203, f"{text!r} is no compatibility level: {', '.join(levels)}")


def invalid_mode(text: object, modes: Sequence[str]) -> RegistryError:
    return RegistryError(422, 42204, f"{text!r} is no mode: {', '.join(modes)}")


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def still_referenced(subject: str, version: int, ids: Sequence[int]) -> RegistryError:
    shown = ", ".join(map(str, ids))
    text = f"version {version} of {subject!r} is referenced by the schemas with the ids {shown}"
    return RegistryError(422, 42206, text)


def incompatible(subject: str, reasons: Sequence[str]) -> RegistryError:
    text = f"incompatible with an earlier schema of {subject!r}: {'; '.join(reasons)}"
    return RegistryError(409, 409, text)


def malformed(reason: str) -> RegistryError:
    return RegistryError(422, 422, reason)


def not_written(reason: str) -> RegistryError:
    return RegistryError(500, 50001, f"the cluster did not take it: {reason}")


def not_ready(reason: str) -> RegistryError:
    return RegistryError(503, 50301, f"the topic of schemas is not read yet: {reason}")
