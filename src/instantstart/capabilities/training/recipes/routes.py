"""The door of recipes and of saved forms. A form belongs to the identity that keeps it; nobody else sees it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from instantstart.base import patterns
from instantstart.capabilities.doors import Operator, RoomDep, Viewer
from instantstart.capabilities.training.recipes import specs, views

router = APIRouter(tags=["training"])

KindPath = Annotated[specs.FormKind, Path(description="What it is a form of.")]
NamePath = Annotated[str, Path(min_length=1, max_length=100, pattern=patterns.FORM_NAME, description="Name of the form.")]


@router.get("/training-recipes", operation_id="training_recipe_list", summary="List training recipes")
def list_training_recipes(_caller: Viewer) -> views.RecipeList:
    """What a training job can run, by framework: every field with its help, MS-Swift's commands, variables that are given."""
    return views.list_recipes()


@router.get("/saved-forms", operation_id="saved_form_list", summary="List saved forms")
def list_saved_forms(
    room: RoomDep, caller: Viewer, kind: Annotated[specs.FormKind | None, Query(description="Only of this kind.")] = None
) -> views.SavedFormList:
    """The forms that you keep."""
    return views.list_forms(room, caller.id, kind)


@router.get("/saved-forms/{kind}/{name:path}", operation_id="saved_form_get", summary="Load a saved form")
def get_saved_form(room: RoomDep, caller: Viewer, kind: KindPath, name: NamePath) -> views.SavedForm:
    """One form that you keep."""
    return views.get_form(room, caller.id, kind, name)


@router.put("/saved-forms/{kind}/{name:path}", operation_id="saved_form_put", summary="Save a form")
def put_saved_form(room: RoomDep, caller: Operator, kind: KindPath, name: NamePath, ask: specs.PutSavedForm) -> views.SavedForm:
    """Keep a form under a name, or write it anew. It is yours alone."""
    return views.put_form(room, caller.id, kind, name, ask.content)


@router.delete("/saved-forms/{kind}/{name:path}", operation_id="saved_form_delete", summary="Delete a saved form", status_code=204)
def delete_saved_form(room: RoomDep, caller: Operator, kind: KindPath, name: NamePath) -> None:
    """Forget a form that you keep."""
    views.delete_form(room, caller.id, kind, name)
