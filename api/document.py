"""The OpenAPI document, as the service really answers."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

#: Schemas of the framework's own 422, which no resource ever answers: what is wrong is a 400.
_UNUSED_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
#: What a PUT answers besides 201, and what every call may answer.
_THERE_ALREADY: Final = {"description": "It was there already; equal, or changed as told"}
_COMMON: Final = {
    "403": {"description": "A change from a page of another origin"},
    "412": {"description": "A condition does not hold: a protected vhost, another version than expected"},
    "429": {"description": "Too many failed logins"},
    "503": {"description": "Too many writers at once: try again; or `commit_unknown`: done or not, look"},
    "507": {"description": "The storage refused the change, which was not made"},
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an application, built once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document["components"]["schemas"]
    for methods in document["paths"].values():
        for method, operation in methods.items():
            responses = operation["responses"]
            responses.pop("422", None)
            responses.get("201", {}).pop("content", None)  # what was created is not repeated
            if method == "put" and "201" in responses:
                responses["204"] = _THERE_ALREADY
            responses |= {status: answer for status, answer in _COMMON.items() if status not in responses}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schemas |= content["schema"].pop("$defs", {})
    for name in _UNUSED_SCHEMAS:
        schemas.pop(name, None)
    app.openapi_schema = document
    return document
