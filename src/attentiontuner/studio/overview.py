"""The routes of the table: the data set as a page, what is done from it, and what people are told at first."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import FileResponse, Response

from attentiontuner.demos.annotations import check_annotator
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.studio import acceptance, review
from attentiontuner.studio.catalogue import Catalogue
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.guidance import Guidance
from attentiontuner.studio.handout import handout
from attentiontuner.studio.presence import Place, Presence
from attentiontuner.studio.ranges import parse_ranges
from attentiontuner.studio.requests import (
    MOST_TOLERANCE,
    AcceptBody,
    AssignBody,
    HandoutBody,
    HereBody,
    StateBody,
    TakeBackBody,
)
from attentiontuner.studio.suggest import Suggester
from attentiontuner.tasks.task import all_tasks

STATIC = Path(__file__).parent / "static"
MEDIA = {"jsonl": "application/jsonl", "csv": "text/csv"}


def serve_table(app: FastAPI, desk: Desk, suggester: Suggester, first_annotator: str, launch: str) -> None:
    """The table, its changes and its files."""
    catalogue, presence = Catalogue(desk), Presence()

    def chosen(ranges: str) -> set[int]:
        return parse_ranges(ranges, len(desk.store))

    @app.get("/table")
    def table_page() -> FileResponse:
        return FileResponse(STATIC / "table.html")

    @app.get("/progress")
    def progress_page() -> FileResponse:
        return FileResponse(STATIC / "progress.html")

    @app.get("/api/table")
    def table(
        annotator: str | None = None,
        seen: str = "",
        tolerance: Annotated[int, Query(ge=0, le=MOST_TOLERANCE)] = 0,
    ) -> dict[str, Any]:
        """The table, or who is where alone if it is still the one `seen`."""
        present = {"present": presence.places()}
        if seen and catalogue.stamp(tolerance) == seen:
            return present
        who = check_annotator(annotator or first_annotator)
        task = all_tasks().get(desk.store.task)
        unseen = acceptance.accepting(desk.root)
        return {
            "name": desk.root.resolve().name,
            "title": task.title if task else desk.store.task,
            "annotator": who,
            "scripts": [EXPERT, *unseen],
            "sources": [source._asdict() for source in acceptance.sources_for_many(suggester, who)],
            "recommended": suggester.recommended(),
            "batches": {name: acceptance.read_batches(desk.root, name) for name in unseen},
            "launch": launch,
            **catalogue.table(tolerance),
            **present,
        }

    @app.post("/api/here")
    def here(body: HereBody) -> dict[str, Any]:
        if body.leaving:
            presence.gone(body.window)
        else:
            presence.here(body.window, Place(check_annotator(body.annotator), body.episode))
        return {}

    @app.post("/api/assign")
    def assign(body: AssignBody) -> dict[str, Any]:
        review.assign(desk.root, body.name, chosen(body.episodes), body.take_away)
        return {}

    @app.post("/api/state")
    def state(body: StateBody) -> dict[str, Any]:
        seen = {known: frozenset(chosen(ranges)) for known, ranges in body.seen.items()}
        labels = catalogue.fingerprints(chosen(body.episodes))
        review.set_state(desk.root, body.by, labels, body.state, seen)
        return {}

    @app.post("/api/accept")
    def accept(body: AcceptBody) -> dict[str, Any]:
        episodes = chosen(body.episodes)
        return acceptance.accept_many(suggester, body.name, body.by, body.source, episodes, body.batch)._asdict()

    @app.post("/api/take-back")
    def take_back(body: TakeBackBody) -> dict[str, Any]:
        return acceptance.take_back(desk.root, body.name, body.batch)._asdict()

    @app.post("/api/handout")
    def export(body: HandoutBody) -> Response:
        text = handout(desk, catalogue, chosen(body.episodes), body.form, body.tolerance)
        return Response(text, media_type=MEDIA[body.form])


def serve_guidance(app: FastAPI, guidance: Guidance) -> None:
    """What people are told at first."""

    @app.get("/api/instructions")
    def instructions() -> dict[str, Any]:
        return guidance.as_json()

    @app.get("/api/instructions/{end}.png")
    def picture(end: str) -> Response:
        return Response(guidance.picture(end), media_type="image/png")
