"""The REST API of a registry, as the clients of Confluent's speak to it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.registry import errors
from tidelog.registry.errors import RegistryError
from tidelog.registry.image import Image
from tidelog.registry.languages.words import KINDS
from tidelog.registry.lookups import found_id, found_subject, found_version, schema_in
from tidelog.registry.records import Version
from tidelog.registry.service import Registry, Wish, as_number
from tidelog.registry.users import Users

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
BODY_BYTES_AT_MOST: Final = 4 * 1024 * 1024
ID_DIGITS_AT_MOST: Final = 10
"""Ids are 32 bits wide in front of every value."""

Handler = Callable[[Registry, Request], Awaitable[Any]]
Ready = Callable[[], Registry]
"""The registry; RegistryError while it is not there."""


class Raw(str):
    """An answer that is the text of a schema, and no JSON made by us."""

    __slots__ = ()


def answered(document: Any, status: int = 200) -> Response:
    text = document if isinstance(document, Raw) else json.dumps(document, ensure_ascii=False)
    return Response(text, status, media_type=CONTENT_TYPE)


def told(error: RegistryError) -> Response:
    return answered({"error_code": error.code, "message": error.message}, error.status)


# ---- schemas


async def schema_types(registry: Registry, request: Request) -> Any:
    return list(KINDS)


async def all_schemas(registry: Registry, request: Request) -> Any:
    prefix = request.query_params.get("subjectPrefix", "")
    with_deleted = truth(request, "deleted")
    found = []
    for subject in registry.image.subjects(deleted=with_deleted):
        versions = registry.image.versions(subject, deleted=with_deleted)
        if subject.startswith(prefix):
            found += versions[-1:] if truth(request, "latestOnly") else versions
    return [each.as_document() for each in paged(request, found)]


async def schema_by_id(registry: Registry, request: Request) -> Any:
    found = (await registry.look(lambda image: found_id(image, id_in(request))))[0]
    document = (await registry.formatted(found.schema, form_in(request))).as_document()
    if truth(request, "fetchMaxId"):
        document["maxId"] = registry.image.max_id
    return document


async def text_by_id(registry: Registry, request: Request) -> Any:
    return Raw((await schema_by_id(registry, request))["schema"])


async def subjects_of_id(registry: Registry, request: Request) -> Any:
    found = await with_id(registry, request)
    return paged(request, list(dict.fromkeys(each.subject for each in found)))


async def versions_of_id(registry: Registry, request: Request) -> Any:
    found = [
        {"subject": each.subject, "version": each.version}
        for each in await with_id(registry, request)
    ]
    return paged(request, found)


async def with_id(registry: Registry, request: Request) -> list[Version]:
    found = await registry.look(lambda image: found_id(image, id_in(request)))
    return [each for each in found if truth(request, "deleted") or not each.deleted]


# ---- subjects


async def subjects(registry: Registry, request: Request) -> Any:
    prefix = request.query_params.get("subjectPrefix", "")
    only_deleted = truth(request, "deletedOnly") or truth(request, "deleted_only")
    names = registry.image.subjects(deleted=only_deleted or truth(request, "deleted"))
    if only_deleted:
        names = [each for each in names if not registry.image.versions(each)]
    return paged(request, [each for each in names if each.startswith(prefix)])


async def versions(registry: Registry, request: Request) -> Any:
    only_deleted = truth(request, "deletedOnly") or truth(request, "deleted_only")
    deleted = only_deleted or truth(request, "deleted")
    subject = request.path_params["subject"]
    found = await registry.look(lambda image: found_subject(image, subject, deleted=deleted))
    numbers = [each.version for each in found if each.deleted or not only_deleted]
    return paged(request, numbers)


async def register(registry: Registry, request: Request) -> Any:
    body = await body_of(request)
    schema = schema_in(body)
    wish = Wish(
        truth(request, "normalize"),
        as_number(body.get("id"), "id"),
        as_number(body.get("version"), "version"),
    )
    made = await registry.register(request.path_params["subject"], schema, wish)
    return {"id": made.id}


async def lookup(registry: Registry, request: Request) -> Any:
    found = await registry.lookup(
        request.path_params["subject"],
        schema_in(await body_of(request)),
        deleted=truth(request, "deleted"),
        normalize=truth(request, "normalize"),
    )
    return (await shown(registry, found, request)).as_document()


async def version(registry: Registry, request: Request) -> Any:
    return (await shown(registry, await version_in(registry, request), request)).as_document()


async def text_of_version(registry: Registry, request: Request) -> Any:
    found = await shown(registry, await version_in(registry, request), request)
    return Raw(found.schema.text)


async def referenced_by(registry: Registry, request: Request) -> Any:
    found = await version_in(registry, request)
    return paged(request, registry.image.referring(found.subject, found.version))


async def delete_subject(registry: Registry, request: Request) -> Any:
    subject = request.path_params["subject"]
    return await registry.delete_subject(subject, permanent=truth(request, "permanent"))


async def delete_version(registry: Registry, request: Request) -> Any:
    subject, text = request.path_params["subject"], request.path_params["version"]
    return await registry.delete_version(subject, text, permanent=truth(request, "permanent"))


async def version_in(registry: Registry, request: Request) -> Version:
    subject, text = request.path_params["subject"], request.path_params["version"]
    deleted = truth(request, "deleted")
    return await registry.look(lambda image: found_version(image, subject, text, deleted=deleted))


async def shown(registry: Registry, found: Version, request: Request) -> Version:
    return found._replace(schema=await registry.formatted(found.schema, form_in(request)))


# ---- compatibility, levels, modes


async def compatibility(registry: Registry, request: Request) -> Any:
    subject, text = request.path_params["subject"], request.path_params.get("version")
    reasons = await registry.problems(subject, text, schema_in(await body_of(request)))
    document: dict[str, Any] = {"is_compatible": not reasons}
    if truth(request, "verbose"):
        document["messages"] = reasons
    return document


async def level(registry: Registry, request: Request) -> Any:
    subject = subject_in(request)
    found = await registry.look(lambda image: known_level(image, subject, request))
    return {"compatibilityLevel": found}


def known_level(image: Image, subject: str | None, request: Request) -> str:
    own = image.level(subject)
    if own is None and subject is not None and not truth(request, "defaultToGlobal"):
        raise errors.no_level_of_its_own(subject)
    return own or image.level_in_force(subject or "")


async def set_level(registry: Registry, request: Request) -> Any:
    given = (await body_of(request)).get("compatibility")
    return {"compatibility": await registry.set_level(subject_in(request), given)}


async def clear_level(registry: Registry, request: Request) -> Any:
    return {"compatibilityLevel": await registry.clear_level(subject_in(request))}


async def mode(registry: Registry, request: Request) -> Any:
    subject = subject_in(request)
    return {"mode": await registry.look(lambda image: known_mode(image, subject, request))}


def known_mode(image: Image, subject: str | None, request: Request) -> str:
    own = image.mode(subject)
    if own is None and subject is not None and not truth(request, "defaultToGlobal"):
        raise errors.no_mode_of_its_own(subject)
    return own or image.mode_in_force(subject)


async def set_mode(registry: Registry, request: Request) -> Any:
    given = (await body_of(request)).get("mode")
    force = truth(request, "force")
    return {"mode": await registry.set_mode(subject_in(request), given, force=force)}


async def clear_mode(registry: Registry, request: Request) -> Any:
    return {"mode": await registry.clear_mode(subject_in(request))}


async def nothing(registry: Registry, request: Request) -> Any:
    return {}


async def contexts(registry: Registry, request: Request) -> Any:
    return ["."]


# ---- what requests say


async def body_of(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_AT_MOST:
            raise RegistryError(413, 413, f"a body has at most {BODY_BYTES_AT_MOST} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise errors.malformed("the body must be a JSON object")
    return found


def truth(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def form_in(request: Request) -> str:
    return str(request.query_params.get("format", ""))


def subject_in(request: Request) -> str | None:
    return request.path_params.get("subject")


def id_in(request: Request) -> int:
    text = request.path_params["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= ID_DIGITS_AT_MOST):
        raise RegistryError(404, 404, f"{text[:40]!r} is no id")
    return int(text)


def paged(request: Request, found: list[Any]) -> list[Any]:
    first, count = (number_in(request, "offset", 0), number_in(request, "limit", -1))
    return found[first:] if count < 0 else found[first : first + count]


def number_in(request: Request, name: str, usual: int) -> int:
    text = request.query_params.get(name, str(usual))
    if not text.removeprefix("-").isdecimal():
        raise errors.malformed(f"{name} must be a whole number")
    return max(int(text), 0) if usual == 0 else int(text)


# ---- the table of routes

S = "/subjects/{subject:path}"
ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/", nothing),
    ("GET", "/contexts", contexts),
    ("GET", "/schemas", all_schemas),
    ("GET", "/schemas/types", schema_types),
    ("GET", "/schemas/ids/{id}", schema_by_id),
    ("GET", "/schemas/ids/{id}/schema", text_by_id),
    ("GET", "/schemas/ids/{id}/subjects", subjects_of_id),
    ("GET", "/schemas/ids/{id}/versions", versions_of_id),
    ("GET", "/subjects", subjects),
    # Names of subjects may have slashes, so what is longer stands first.
    ("GET", f"{S}/versions/{{version}}/schema", text_of_version),
    ("GET", f"{S}/versions/{{version}}/referencedby", referenced_by),
    ("GET", f"{S}/versions/{{version}}", version),
    ("DELETE", f"{S}/versions/{{version}}", delete_version),
    ("GET", f"{S}/versions", versions),
    ("POST", f"{S}/versions", register),
    ("POST", S, lookup),
    ("DELETE", S, delete_subject),
    ("POST", f"/compatibility{S}/versions/{{version}}", compatibility),
    ("POST", f"/compatibility{S}/versions", compatibility),
    ("GET", "/config", level),
    ("PUT", "/config", set_level),
    ("DELETE", "/config", clear_level),
    ("GET", "/config/{subject:path}", level),
    ("PUT", "/config/{subject:path}", set_level),
    ("DELETE", "/config/{subject:path}", clear_level),
    ("GET", "/mode", mode),
    ("PUT", "/mode", set_mode),
    ("DELETE", "/mode", clear_mode),
    ("GET", "/mode/{subject:path}", mode),
    ("PUT", "/mode/{subject:path}", set_mode),
    ("DELETE", "/mode/{subject:path}", clear_mode),
)


def make_app(ready: Ready, users: Users | None = None) -> Starlette:
    """With users, everything but `/health` wants a login."""

    def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            login = request.headers.get("authorization")
            if users is not None and not await users.admits(login):
                refused = told(RegistryError(401, 40101, "a login is wanted"))
                refused.headers["WWW-Authenticate"] = 'Basic realm="schemas"'
                return refused
            try:
                document = await handler(ready(), request)
            except RegistryError as error:
                return told(error)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is there to read it
            return answered(document)

        return serve

    async def health(request: Request) -> Response:
        """`/health`: whether all that is written is known here."""
        try:
            image = ready().image
        except RegistryError as error:
            return answered({"status": "not ready", "reason": error.message}, 503)
        return answered({"status": "ready", "subjects": len(image.subjects())})

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), error
        return answered(
            {"error_code": error.status_code, "message": error.detail}, error.status_code
        )

    routes = [Route("/health", health)]
    routes += [Route(path, endpoint(each), methods=[method]) for method, path, each in ROUTES]
    return Starlette(routes=routes, exception_handlers={HTTPException: unknown})
