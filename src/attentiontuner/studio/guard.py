"""Who may talk to the studio: requests to the right host, from its own page, with this launch's token, not too big.

A page on another site can make a browser send requests to 127.0.0.1. So every request must name a host we serve
(against DNS rebinding), must not come from a foreign origin, and must carry the token, which no other site knows.
The loopback names are ours at any port: a forwarded port (`ssh -L`) has another number at the browser's end.
"""

import hmac
from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 512 * 1024
"""Bytes in one request: about 30,000 pairs."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

ADVICE = (
    "<p>The terminal where <code>attentiontuner</code> runs has printed an address with a token, such as "
    "<code>127.0.0.1:8737/?token=…</code> Open exactly that address, in this browser. Each launch has a new one.</p>"
    "<p>From another machine, forward the port first: <code>ssh -L 8737:127.0.0.1:8737 machine</code>, then open the "
    "printed address here. If the local port is another one, put its number into the address.</p>"
)
"""What people who have come to a wrong door can do."""

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
        hosts: values of the Host header that are ours, such as `192.168.1.20:8000`, besides the loopback names.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        self.app, self.token, self.hosts = app, token, {host.lower() for host in hosts}

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
            await refusal_of(scope, 413, f"the request is larger than {MAX_BODY} bytes")(scope, receive, send_safely)
            return
        await self.app(scope, _replay(body, receive), send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that must not pass (or that brings the token), None for one that may."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        name, _, port = host.rpartition(":")
        if host not in self.hosts and not (name in LOOPBACK_NAMES and port.isdecimal()):
            return refusal_of(scope, 421, "this studio does not serve that host name: open the address it printed")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return refusal_of(scope, 403, "requests from other sites are refused")
        cookie = f"studio_{port}"  # cookies do not know ports, and there may be a studio at each
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        brought = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if brought and scope["method"] == "GET" and self._matches(brought):
            # The token moves from the address into a cookie, so that it stays out of history and screenshots. Where a
            # link on another site was clicked, the browser would keep the cookie back from a redirect.
            own = "/" + scope["path"].lstrip("/")
            response = _onward(own) if foreign else RedirectResponse(own, status_code=303)
            response.set_cookie(cookie, self.token, httponly=True, samesite="strict")
            return response
        if foreign:
            return refusal_of(scope, 403, "requests from other sites are refused: open the address the studio printed")
        if not self._matches(_cookie_in(headers, cookie)):
            problem = "the token is missing or of an earlier launch: open the address the studio printed"
            return refusal_of(scope, 401, problem)
        return None

    def _matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def _cookie_in(headers: Headers, name: str) -> str:
    """The value of one cookie, whatever others that any program on this host has set look like."""
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.partition("=")
        if key.strip() == name:
            return value.strip()
    return ""


def refusal_of(scope: Scope, status: int, reason: str) -> Response:
    """Why a request is not answered: a page for somebody who opened an address, JSON for the pages themselves."""
    if scope["path"].startswith("/api/") or "text/html" not in Headers(scope=scope).get("accept", ""):
        return JSONResponse({"reason": reason}, status)
    return HTMLResponse(_page("The studio cannot show this", f"<p>{escape(reason)}.</p>{ADVICE}"), status)


def _onward(path: str) -> Response:
    """A page of our own that goes on to `path`: from there on the browser is not coming from another site."""
    where = escape(path)
    return HTMLResponse(
        _page(
            "The studio opens",
            f'<p><a href="{where}">Go on</a></p>',
            f'<meta http-equiv="refresh" content="0;url={where}">',
        )
    )


def _page(title: str, content: str, head: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"></head>'
        f"<body><main><h1>{title}</h1>{content}</main></body></html>"
    )


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
