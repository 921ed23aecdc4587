"""Who may talk to the studio: requests to the right host, from its own page, with this launch's token, not too big.

A page on another site can make a browser send requests to 127.0.0.1. So every request must name a host we serve
(against DNS rebinding), must not come from a foreign origin, and must carry the token, which no other site knows.
"""

import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 512 * 1024
"""Bytes in one request: about 30,000 pairs."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """ASGI middleware in front of everything.

    Args:
        app: what is guarded.
        token: the secret of this launch.
        hosts: values of the Host header that are ours, such as `127.0.0.1:8000`.
        cookie: name of the cookie that carries the token; it holds the port, because cookies do not know ports.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], cookie: str) -> None:
        self.app, self.token, self.hosts, self.cookie = app, token, {host.lower() for host in hosts}, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_safely)
            return
        body = await _bounded_body(receive)
        if body is None:
            await _refuse(413, f"the request is larger than {MAX_BODY} bytes")(scope, receive, send_safely)
            return
        await self.app(scope, _replay(body, receive), send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that must not pass (or that brings the token), None for one that may."""
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self.hosts:
            return _refuse(421, "this studio does not serve that host name")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return _refuse(403, "requests from other sites are refused")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _refuse(403, "requests from other sites are refused")
        brought = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if brought and scope["method"] == "GET" and self._matches(brought):
            # The token moves from the address into a cookie, so that it stays out of history and screenshots.
            response = RedirectResponse(scope["path"], status_code=303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return response
        if not self._matches(self._token_in(headers)):
            return _refuse(401, "the token is missing or of an earlier launch: open the address the studio printed")
        return None

    def _token_in(self, headers: Headers) -> str:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[self.cookie].value if self.cookie in cookies else ""

    def _matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def _refuse(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status)


async def _bounded_body(receive: Receive) -> bytes | None:
    """The whole body, or None as soon as it is larger than MAX_BODY, whatever length was announced."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
