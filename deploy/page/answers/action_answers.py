"""Answers to actions: what a token's user may do to an object, and the doing."""

from typing import TYPE_CHECKING

from deploy.page import page_actions
from deploy.page.answers import requests_read
from deploy.page.answers.delivery_answers import DeliveryAnswers
from deploy.page.browser_page import BrowserPage
from deploy.page.page_actions import Change, DeliveryChange, ObjectDeletion
from deploy.page.web.access import token_of
from deploy.page.web.web_answers import HttpRefusal, json
from workers.api.kinds import Object, Ref
from workers.client.rest import MERGE_PATCH
from workers.errors import UserError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class ActionAnswers:
    """The answers to `/actions`. All of them need a token; the API server decides with it."""

    def __init__(self, page: BrowserPage, deliveries: DeliveryAnswers) -> None:
        self._page = page
        self._deliveries = deliveries

    async def allowed(self, request: "Request") -> "Response":
        """`GET /actions/{kind}/{namespace}/{name}`."""
        self._page.access.check_site(request)
        ref, token = requests_read.ref(request), token_of(request)
        reasons: dict[str, str] = {}
        found = []
        for action in page_actions.of_kind(ref.kind.id):
            verb = page_actions.api_verb(action)
            if verb not in reasons:
                reasons[verb] = await self._page.access.why_not(token, verb, ref.kind, ref.namespace, ref.name)
            found.append({"action": action, "allowed": not reasons[verb], "reason": reasons[verb]})
        return json(found)

    async def act(self, request: "Request") -> "Response":
        """`POST /actions/{kind}/{namespace}/{name}/{action}`."""
        self._page.access.check_site(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HttpRefusal(415, "the body of an action is application/json")
        ref, token, action = requests_read.ref(request), token_of(request), request.path_params["action"]
        given = (await requests_read.body(request)).get("parameters") or {}
        if not isinstance(given, dict):
            raise UserError("parameters: an object is needed")
        change = page_actions.planned(action, ref, given)
        verb = "delete" if isinstance(change, ObjectDeletion) else "patch"
        # Asked first, so that a refusal says why in a sentence; the request itself carries the user's token.
        await self._page.access.require(token, verb, ref.kind, ref.namespace, ref.name)
        uid = await self._uid(ref)
        match change:
            case Change():
                metadata = {**change.patch.get("metadata", {}), "uid": uid}
                await self._send(token, "PATCH", ref, {**change.patch, "metadata": metadata})
                return json({"done": change.done})
            case ObjectDeletion():
                await self._send(token, "DELETE", ref, page_actions.delete_options(uid))
                return json({"done": f"{ref} deleted"})
            case DeliveryChange():
                return json({"done": await self._deliveries.change(uid, change)})

    async def _send(self, token: str, method: str, ref: Ref, body: Object) -> None:
        """Sends a change with the user's own token. Raises `errors.ClusterError`.

        The API server refuses it (409) if the name stands for another object by now.
        """
        headers = {"Content-Type": MERGE_PATCH} if method == "PATCH" else {}
        path = ref.kind.path(ref.namespace, ref.name)
        await self._page.access.visitor(token).request(method, path, body=body, headers=headers)

    async def _uid(self, ref: Ref) -> str:
        """Returns the uid of the object that the user sees. Raises HttpRefusal (404)."""
        await self._page.current()
        found = self._page.index.get(ref.kind.id, ref.namespace, ref.name)
        if found is None:
            raise HttpRefusal(404, f"{ref} is not known yet, or does not exist")
        return found.row.uid
