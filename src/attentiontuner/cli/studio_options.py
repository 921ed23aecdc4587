"""What the studio's commands share."""

from importlib.util import find_spec

from attentiontuner.core.errors import UserError


def require_studio() -> None:
    """Refuse with the command that helps where the studio's packages are not installed."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise UserError("the studio needs fastapi and uvicorn: pip install 'attentiontuner[studio]'")
