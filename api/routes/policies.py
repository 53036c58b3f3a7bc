"""Policies and operator policies: stored, reported, and applied where routing has a use for them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.as_of import AsOf
from bindery.api.bodies import PolicyBody, documented
from bindery.api.deps import (
    ManagementUser,
    NamePath,
    Plane,
    PolicymakerUser,
    VhostHeader,
    VhostPath,
    json_body,
    resource,
)
from bindery.api.errors import bad_request, object_not_found
from bindery.api.items import PolicyItem
from bindery.api.listing import ListingParameters
from bindery.api.policy_rules import check_policy, validation_failed
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.api.views import policy_item
from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration
from bindery.router.known_arguments import without_effect
from bindery.router.policies import OPERATOR_POLICY, POLICY, Policy, policies_of, policy_of

router = resource("policies")

#: What paths call each kind of policy.
_KINDS: Final = {"policies": POLICY, "operator-policies": OPERATOR_POLICY}
_EXAMPLE: Final = {
    "pattern": "^orders",
    "definition": {"alternate-exchange": "unrouted"},
    "apply-to": "exchanges",
    "priority": 1,
}


def _register(collection: Literal["policies", "operator-policies"]) -> None:
    """The routes of one kind of policy."""
    kind = _KINDS[collection]
    one = f"/{collection}/{{vhost:segment}}/{{name:segment}}"
    what = collection.replace("-", " ")
    operation = collection.replace("-", "_")

    @router.get(
        f"/{collection}", summary=f"List {what}", operation_id=f"list_{operation}", response_model=list[PolicyItem]
    )
    def list_all(
        user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None
    ) -> Response:
        """Every one of every vhost that the caller sees."""
        vhosts = set(visible_vhosts(topology, user, x_vhost))
        found = [policy_item(item) for item in policies_of(topology, kind=kind) if item.vhost in vhosts]
        return answer(listing.whole(found))

    @router.get(
        f"/{collection}/{{vhost:segment}}",
        summary=f"List {what} of a vhost",
        operation_id=f"list_{operation}_of_vhost",
        response_model=list[PolicyItem],
    )
    def list_in_vhost(user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath) -> Response:
        """Every one of the vhost."""
        visible_vhost(topology, user, vhost)
        found = [policy_item(item) for item in policies_of(topology, kind=kind) if item.vhost == vhost]
        return answer(listing.whole(found))

    @router.get(one, summary=f"Show one of the {what}", operation_id=f"show_{operation}", response_model=PolicyItem)
    def show(
        user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath, name: NamePath
    ) -> Response:
        """One of them, by name."""
        visible_vhost(topology, user, vhost)
        setting = topology.settings.get((kind, vhost, name))
        if setting is None:
            raise object_not_found()
        return answer(listing.one(policy_item(policy_of(setting))))

    @router.put(
        one,
        status_code=201,
        summary=f"Declare one of the {what}",
        operation_id=f"put_{operation}",
        openapi_extra=documented(PolicyBody, _EXAMPLE),
    )
    async def put(
        plane: Plane,
        user: PolicymakerUser,
        vhost: VhostPath,
        name: NamePath,
        body: Annotated[PolicyBody, json_body(PolicyBody)],
    ) -> Response:
        """Declare it; one of that name is replaced."""
        user.require_sight(vhost)
        policy = read_policy(vhost, name, body)

        def change(editor: TopologyEditor) -> bool:
            editor.topology.vhost(vhost)
            return editor.put_setting(policy.setting(kind))

        created = await plane.change(change, author=user.name)
        return put_answer(created, without_effect=without_effect(policy.setting(kind)))

    @router.delete(one, status_code=204, summary=f"Delete one of the {what}", operation_id=f"delete_{operation}")
    async def delete(plane: Plane, user: PolicymakerUser, vhost: VhostPath, name: NamePath) -> Response:
        """Delete it."""
        user.require_sight(vhost)

        def change(editor: TopologyEditor) -> None:
            if (kind, vhost, name) not in editor.topology.settings:
                raise object_not_found()
            editor.delete_setting(kind, vhost, name)

        await plane.change(change, author=user.name)
        return no_content()


def read_policy(vhost: str, name: str, body: PolicyBody) -> Policy:
    """The policy that a body states; raises Refusal or InvalidDeclaration."""
    definition = decode_arguments(body.definition)
    check_policy(definition)
    try:
        return Policy(vhost, name, body.pattern, definition, body.apply_to, body.priority)
    except InvalidDeclaration as error:
        raise bad_request(validation_failed(error.message)) from None


_register("policies")
_register("operator-policies")
