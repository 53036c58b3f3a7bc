"""Definitions: the whole topology, or a vhost, as one document; users and permissions with the former."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from bindery import __version__
from bindery.api.answers import answer, no_content
from bindery.api.as_of import AsOf
from bindery.api.bodies import parse_object, read_bytes
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, Plane, VhostPath, resource
from bindery.api.errors import Refusal, bad_request, not_found
from bindery.api.items import Document
from bindery.api.policy_rules import check_policy
from bindery.api.routes.overview import PRODUCT, RABBITMQ_VERSION
from bindery.api.routes.permissions import permission_item, topic_permission_item
from bindery.api.routes.users import user_item
from bindery.router import definitions
from bindery.router.declarations import TopologyEditor
from bindery.router.definitions import Definitions, Report
from bindery.router.definitions.keys import Unknown, check_keys
from bindery.router.errors import DefinitionsRefused, InvalidInput, NotFound
from bindery.router.model import EXCHANGE_TYPES, Exchange, Setting, Vhost
from bindery.router.policies import OPERATOR_POLICY, POLICY, policy_of
from bindery.store.access import AccessEditor
from bindery.store.access_definitions import apply_access

router = resource("definitions")

_ONE: Final = "/definitions/{vhost:segment}"
#: Bytes of a form that are parsed at once.
_FORM_PART: Final = 64 * 1024
_UNREADABLE: Final = "failed_to_parse_json"
#: Sections of a cluster document whose objects state their vhost.
_IN_VHOSTS: Final = ("permissions", "exchanges", "queues", "bindings", "policies", "parameters", "bindery_diverts")
_DOCUMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object"},
                "example": {
                    "exchanges": [{"name": "orders", "vhost": "/", "type": "topic", "durable": True}],
                    "queues": [{"name": "eu", "vhost": "/", "durable": True}],
                    "bindings": [
                        {
                            "source": "orders",
                            "vhost": "/",
                            "destination": "eu",
                            "destination_type": "queue",
                            "routing_key": "eu.#",
                            "arguments": {},
                        }
                    ],
                },
            },
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
            },
        },
    }
}
Download = Annotated[str | None, Query(description="offer the answer as a file of this name")]
Overwrite = Annotated[str, Query(description='"1": objects that exist with other properties are replaced')]
DryRun = Annotated[str, Query(description='"1": nothing is changed, the answer is the report')]
_YES: Final = frozenset({"1", "true"})


@router.get("/definitions", summary="Export everything", response_model=Document)
def export_all(
    plane: Plane, _: AdministratorUser, topology: AsOf, request: Request, download: Download = None
) -> Response:
    """The topology of every vhost, with users and permissions, as one document."""
    access = plane.access.load()
    document = {
        **_stated(),
        "original_cluster_name": plane.settings.cluster_name,
        "explanation": "Definitions of cluster " + plane.settings.cluster_name,
        "users": [user_item(user) for user in access.users.values()],
        "permissions": [permission_item(item) for item in access.permissions.values()],
        "topic_permissions": [topic_permission_item(item) for item in access.topic_permissions.values()],
        **definitions.export(topology),
    }
    return _exported(request, document, download)


@router.get(_ONE, summary="Export a vhost", response_model=Document)
def export_vhost(
    _: AdministratorUser, topology: AsOf, request: Request, vhost: VhostPath, download: Download = None
) -> Response:
    """The topology of one vhost as a document that can be imported into any vhost."""
    if vhost not in topology.vhosts:
        raise bad_request("vhost_not_found")
    stored = topology.vhosts[vhost]
    document = {
        **_stated(),
        "description": stored.description,
        "metadata": {"description": stored.description, "tags": list(stored.tags)},
        "limits": [],
        **definitions.export(topology, vhost=vhost),
    }
    return _exported(request, document, download)


@router.post("/definitions", status_code=204, summary="Import", openapi_extra=_DOCUMENT)
async def import_all(
    plane: Plane, user: AdministratorUser, request: Request, overwrite: Overwrite = "0", dry_run: DryRun = "0"
) -> Response:
    """Declare everything in a document in one commit, or nothing: conflicts are refused with a report."""
    return await _import(plane, user.name, request, None, overwrite in _YES, dry_run in _YES)


@router.post(_ONE, status_code=204, summary="Import into a vhost", openapi_extra=_DOCUMENT)
async def import_vhost(
    plane: Plane,
    user: AdministratorUser,
    request: Request,
    vhost: VhostPath,
    overwrite: Overwrite = "0",
    dry_run: DryRun = "0",
) -> Response:
    """Declare everything in a document in this vhost, in one commit, or nothing."""
    if vhost not in (await run_in_threadpool(plane.topology)).vhosts:
        raise not_found("vhost_not_found")
    return await _import(plane, user.name, request, vhost, overwrite in _YES, dry_run in _YES)


def _stated() -> dict[str, Any]:
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": PRODUCT,
        "product_version": __version__,
    }


def _exported(request: Request, document: Mapping[str, Any], download: str | None) -> Response:
    headers = {"etag": f'"{hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    if download is not None:
        # what could end the header, or the name in it, is left out
        name = "".join(char for char in download if char.isascii() and (char.isalnum() or char in "._-"))
        headers["content-disposition"] = f"attachment; filename={name}"
    return answer(document, headers=headers)


async def _import(
    plane: ControlPlane, author: str, request: Request, vhost: str | None, overwrite: bool, dry_run: bool
) -> Response:
    raw = await _document(request, plane.settings.definitions_limit)
    document, request.state.unread = await run_in_threadpool(_parse, raw, vhost)
    if dry_run:
        return await run_in_threadpool(_tried, plane, document, overwrite)
    await run_in_threadpool(_check_access, document, plane)  # refused before anything has changed
    await run_in_threadpool(plane.revoke_absent, author=author)

    def change(editor: TopologyEditor) -> Report:
        return definitions.apply(document, editor, overwrite=overwrite, skip_dangling=True)

    try:
        report = await plane.change(change, author=author, reason="definitions import")
    except DefinitionsRefused as error:
        raise _refusal(error, document) from None
    if document.users or document.permissions or document.topic_permissions:
        await plane.change_access(
            lambda editor: apply_access(document, editor), author=author, action="imported definitions"
        )
    return no_content(without_effect=(name for entry in report.without_effect for name in entry["names"]))


def _tried(plane: ControlPlane, document: Definitions, overwrite: bool) -> Response:
    report = definitions.check(document, plane.topology(), overwrite=overwrite, skip_dangling=True)
    return answer(report.as_data())


def _check_access(document: Definitions, plane: ControlPlane) -> None:
    """Refuse users and permissions that cannot be stored, where the broker has words for it with those."""
    editor = AccessEditor(plane.access.load())
    vhosts = set(plane.topology().vhosts)
    for user in document.users:
        if isinstance(user, Mapping) and "tags" not in user:
            raise bad_request("tags_not_present")
    try:
        apply_access(document, editor)
    except NotFound:
        granted = (*document.permissions, *document.topic_permissions)
        unknown = next(item["user"] for item in granted if item["user"] not in editor.users)
        raise bad_request(["no_such_user", unknown]) from None
    vhosts |= {entry.item.name for entry in document.entries if isinstance(entry.item, Vhost)}
    for item in (*document.permissions, *document.topic_permissions):
        if item["vhost"] not in vhosts:
            raise bad_request(["no_such_vhost", item["vhost"]])


async def _document(request: Request, limit: int) -> bytes:
    """The document: the body, or its field `file` when it is a form."""
    raw = await read_bytes(request, limit)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return raw

    async def stream() -> Any:
        for start in range(0, len(raw), _FORM_PART):
            yield raw[start : start + _FORM_PART]
            await asyncio.sleep(0)  # others are served between two parts

    try:
        form = await MultiPartParser(request.headers, stream(), max_files=1, max_fields=8, max_part_size=limit).parse()
    except (MultiPartException, FormParserError, KeyError):  # the second where Starlette lets it pass
        raise bad_request("the form cannot be read") from None
    try:
        field = form.get("file")
        if field is None:
            raise bad_request("the form has no field 'file'")
        return await field.read() if isinstance(field, UploadFile) else field.encode()
    finally:
        await form.close()


def _parse(raw: bytes, vhost: str | None) -> tuple[Definitions, list[str]]:
    """The document, and the paths of keys that nobody reads."""
    content = parse_object(raw, error=_UNREADABLE)
    if vhost is None:
        for section in _IN_VHOSTS:
            listed = content.get(section)
            for item in listed if isinstance(listed, list) else ():
                if isinstance(item, dict) and "vhost" not in item:
                    raise bad_request(["no_such_vhost", "undefined"])
    try:
        document = definitions.parse_definitions(content, vhost=vhost, require_durable=True)
    except InvalidInput as error:
        raise bad_request(f"{error.where}: {error.message}") from None
    for entry in document.entries:
        if isinstance(entry.item, Setting) and entry.item.kind in (POLICY, OPERATOR_POLICY):
            check_policy(policy_of(entry.item).definition)
    return document, [found.path for found in check_keys(content) if isinstance(found, Unknown)]


def _refusal(error: DefinitionsRefused, document: Definitions) -> Refusal:
    """A refused import, with its report; where the broker has words for the only problem, with those alone."""
    report: Mapping[str, Any] = error.report
    if len(report["errors"]) == 1 and not report["conflicts"]:
        first = report["errors"][0]
        item = next(entry.item for entry in document.entries if entry.path == first["path"])
        if first["code"] == "not_found" and first.get("where") == "vhost":
            return bad_request(["no_such_vhost", getattr(item, "vhost", "")])
        if isinstance(item, Exchange) and item.type not in EXCHANGE_TYPES:
            # the broker gives its explanation as the codes of its characters
            explanation = [ord(char) for char in f"unknown exchange type '{item.type}'"]
            return bad_request(["amqp_error", "command_invalid", explanation, "none"])
    return bad_request(error.message, report=report)
