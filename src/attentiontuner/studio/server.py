"""The web around the desk and the player: routes, answers, and the launch on the loopback address."""

import hashlib
import secrets
import socket
import threading
import webbrowser
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from attentiontuner.core.errors import UserError
from attentiontuner.demos import Demonstration
from attentiontuner.demos.annotations import check_annotator, read_annotations
from attentiontuner.demos.exchange.lerobot.features import read_came_with, words_of
from attentiontuner.studio import agree
from attentiontuner.studio.desk import Desk, Missing, Outdated, Unsaved, changes_as_json
from attentiontuner.studio.gallery import Gallery
from attentiontuner.studio.guard import Guard, refusal_of
from attentiontuner.studio.guidance import Guidance
from attentiontuner.studio.overview import STATIC, serve_guidance, serve_table
from attentiontuner.studio.play import OutOfStep, Player
from attentiontuner.studio.requests import ChangeBody, SaveBody, StartBody, StepBody, TimeBody
from attentiontuner.studio.suggest import Suggester
from attentiontuner.tasks.task import all_tasks
from attentiontuner.viz.curves import curves_of

USUAL_PORT = 8737

STATUS: dict[type[UserError], int] = {Missing: 404, Outdated: 409, OutOfStep: 409, Unsaved: 503}
"""What errors of the sender are answered with; all others with 400."""


def create_app(
    desk: Desk,
    *,
    annotator: str,
    suggester: Suggester | None = None,
    player: Player | None = None,
    steps_per_second: float | None = None,
) -> FastAPI:
    """The studio of one data set, without its guard (see `guarded`).

    Args:
        desk: the data set.
        annotator: the name the page starts with.
        suggester: where suggestions come from; None: the labels in the data set.
        player: what `/play` plays; None: the page only annotates.
        steps_per_second: play in real time at this rate; None: one step per key press.
    """
    app = FastAPI(title="AttentionTuner studio", docs_url=None, redoc_url=None, openapi_url=None)
    launch = secrets.token_hex(4)
    _answer_errors(app)
    _serve_pages(app, player)
    suggester = suggester or Suggester(desk)
    _serve_annotation(app, desk, suggester, annotator, launch)
    serve_table(app, desk, suggester, annotator, launch)
    serve_guidance(app, Guidance(desk, player.task if player else None, labels=suggester.enabled))
    if player is not None:
        _serve_play(app, desk, player, steps_per_second)
    return app


def _serve_pages(app: FastAPI, player: Player | None) -> None:
    @app.get("/")
    def first_page() -> FileResponse:
        return FileResponse(STATIC / ("annotate.html" if player is None else "play.html"))

    @app.get("/annotate")
    def annotate_page() -> FileResponse:
        return FileResponse(STATIC / "annotate.html")

    app.mount("/static", StaticFiles(directory=STATIC))


def _serve_annotation(app: FastAPI, desk: Desk, suggester: Suggester, first_annotator: str, launch: str) -> None:
    gallery, came = Gallery(desk), read_came_with(desk.root)
    if desk.begun:
        gallery.draw_ahead(0)

    @app.get("/api/dataset")
    def dataset(annotator: str | None = None) -> dict[str, Any]:
        store, who = desk.store, check_annotator(annotator or first_annotator)
        task = all_tasks().get(store.task)
        return {
            "name": desk.root.resolve().name,
            "title": task.title if task else store.task,
            "kind": "grid" if "grid" in store.observation.kinds else store.observation.parts[0][1].kind,
            "actions": list(store.actions.names),
            "lengths": [int(length) for length in store.lengths],
            "annotator": who,
            "annotators": sorted({*store.annotators(), who}),
            "sources": [source._asdict() for source in suggester.sources(who)],
            "recommended": suggester.recommended(),
            "launch": launch,
            "first": first_annotator,
            "folder": folder_mark(desk),
            **desk.overview(who),
        }

    @app.get("/api/episodes/{episode}")
    def open_episode(episode: int, annotator: str, window: str = "") -> JSONResponse:
        demonstration, actions = desk.demonstration(episode), desk.store.actions
        session, _ = desk.open(annotator, episode, window[:64])
        sprites = gallery.sprites(episode).layout()
        gallery.draw_ahead(episode + 1)
        # A response of our own: what FastAPI does to lists of 20,000 numbers takes longer than all the rest.
        return JSONResponse(
            {
                "episode": episode,
                "length": len(demonstration),
                "words": words_of(came, demonstration),
                "seed": demonstration.seed,
                "success": demonstration.success,
                "steps": [*map(int if actions.kind == "discrete" else actions.name, demonstration.actions)],
                "sprites": sprites,
                "curves": _curves(desk, demonstration),
                "state": changes_as_json(session),
            }
        )

    @app.get("/api/episodes/{episode}/sprites/{sheet}.png")
    def sprite_png(episode: int, sheet: int) -> Response:
        return _png(gallery.sheet(episode, sheet))

    @app.get("/api/episodes/{episode}/glance.png")
    def glance(episode: int) -> Response:
        return _png(gallery.glance(episode))

    @app.get("/api/episodes/{episode}/frames/{step}.png")
    def frame(episode: int, step: int) -> Response:
        return _png(gallery.frame(episode, step))

    @app.get("/api/episodes/{episode}/suggestions")
    def suggestions(episode: int, annotator: str, source: str) -> JSONResponse:
        pairs = suggester.suggest(check_annotator(annotator), episode, source)
        return JSONResponse({"source": source, "pairs": pairs, "deciding": suggester.deciding(episode, source)})

    @app.post("/api/episodes/{episode}/change")
    def change(episode: int, body: ChangeBody) -> JSONResponse:
        edit = body.edit.action()
        session = desk.change(body.annotator, episode, body.version, edit, body.seconds, body.window, body.mark)
        return JSONResponse(changes_as_json(session))

    @app.post("/api/episodes/{episode}/time")
    def leave(episode: int, body: TimeBody) -> dict[str, Any]:
        desk.spend(body.annotator, episode, body.seconds)
        desk.settle(body.annotator, episode)
        return {}

    @app.get("/api/agreement")
    def agreement(
        a: str, b: str, tolerance: Annotated[int, Query(ge=0, le=10_000)] = 0, episode: int | None = None
    ) -> dict[str, Any]:
        first, second = (read_annotations(desk.root, check_annotator(name)) for name in (a, b))
        return agree.compare(first, second, tolerance, episode)


def _serve_play(app: FastAPI, desk: Desk, player: Player, steps_per_second: float | None) -> None:
    @app.get("/api/play")
    def state() -> dict[str, Any]:
        task = player.task
        return {
            "title": task.title,
            "actions": [name for name, _ in task.playable],
            "keys": dict(task.keys) or {str(n + 1): n for n in range(min(len(task.playable), 9))},
            "image": task.observation.kinds == {"image"},
            "stepsPerSecond": steps_per_second,
            **player.state(),
        }

    @app.post("/api/play/start")
    def start(body: StartBody) -> dict[str, Any]:
        return player.start(body.seed)

    @app.post("/api/play/step")
    def step(body: StepBody) -> dict[str, Any]:
        return player.step(body.action, body.made)

    @app.post("/api/play/discard")
    def discard() -> dict[str, Any]:
        return player.discard()

    @app.post("/api/play/save")
    def save(body: SaveBody) -> dict[str, Any]:
        try:
            number = player.save(body.seconds, (body.seed, body.made))
        finally:
            desk.refresh()
        return {"episode": number, **player.state()}


def _answer_errors(app: FastAPI) -> None:
    """Every error the sender can cause has a 4xx status and a reason in one line; a full disk is 503, try again."""

    def answer(status: int, reason: object) -> JSONResponse:
        return JSONResponse({"reason": " ".join(str(reason).split())}, status)

    @app.exception_handler(UserError)
    def mistaken(request: Request, error: UserError) -> JSONResponse:
        return answer(next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400), error)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return answer(422, f"{place}: {first['msg']}".encode("utf-8", "replace").decode())

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        return refusal_of(request.scope, error.status_code, str(error.detail))


def _curves(desk: Desk, demonstration: Demonstration) -> list[dict[str, Any]]:
    """Numbers along a demonstration for the page: of each curve its heights from 0 to 1 and, for words, its values."""
    store = desk.store
    found = curves_of(store.observation, store.actions, demonstration.observations, demonstration.actions)
    return [
        {
            "name": curves.name,
            "heights": curves.heights.T.round(3).tolist(),
            "values": curves.values.T.round(3).tolist(),
        }
        for curves in found
    ]


def folder_mark(desk: Desk) -> str:
    """What tells this data set from others: changes that wait in a browser are made to no other."""
    shards = desk.store.manifest.shards
    content = f"{desk.root.resolve()} {shards[0].sha256 if shards else ''}"
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _png(content: bytes) -> Response:
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


def guarded(app: FastAPI, token: str, host: str, port: int) -> Guard:
    """`app` behind its guard: only requests to this host and port, with this token."""
    return Guard(app, token, [f"{_in_address(host)}:{port}"])


def _in_address(host: str) -> str:
    """A host as it is written in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def serve(app: FastAPI, *, host: str, port: int | None, open_browser: bool) -> None:
    """Serve until Ctrl-C; print the address that opens the page. Port None: the usual one, or a free one if taken."""
    if host in ("", "0.0.0.0", "::", "*"):
        # Without a name to expect, requests that other sites smuggle in could not be told apart.
        raise UserError(f"--host {host or repr(host)}: give the one address to listen on, such as 192.168.1.20")
    token = secrets.token_urlsafe(24)
    listener = _listen(host, port)
    chosen = listener.getsockname()[1]
    address = f"http://{_in_address(host)}:{chosen}/?token={token}"
    print(f"The studio is open: {address}\nCtrl-C closes it; everything shown as saved is saved.", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    config = uvicorn.Config(guarded(app, token, host, chosen), log_level="warning", lifespan="off", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int | None) -> socket.socket:
    if port is None:
        # A page that is still open after a crash finds the studio again where it was.
        try:
            return _listen(host, USUAL_PORT)
        except UserError:
            return _listen(host, 0)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # from here on the printed address works, even before the first request is answered
    except (OSError, OverflowError) as error:
        listener.close()
        raise UserError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}; choose another with --host or --port"
        ) from error
    return listener
