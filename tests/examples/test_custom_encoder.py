"""The example of an encoder of one's own encodes, trains and plays."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from attentiontuner.collecting.collection import collect
from attentiontuner.core.errors import UserError
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.models.sizes import RecallConfig
from attentiontuner.models.transformer import TransformerConfig
from attentiontuner.runs.config import paper_config
from attentiontuner.spaces import Part
from attentiontuner.spaces.encoders import make_encoder, register_encoder
from attentiontuner.tasks.own_code import import_user_code
from attentiontuner.training.train import train
from tests.cli.command import ROOT
from tests.continuous_tasks import CAMERA_POINT

import_user_code(str(ROOT / "examples" / "custom_encoder.py"))

SMALL = {"d_model": 16, "layers": 1, "feedforward": 16}


def test_its_features_are_those_of_the_image() -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 12, 3), dtype=np.uint8)
    found = make_encoder("dct", Part("image", (20, 12, 3)))(torch.from_numpy(images))
    expected = dctn(images / 255, axes=(1, 2), norm="ortho")[:, :8, :8].reshape(2, 64, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("method", ["recall", "attentiontuner"])
def test_it_encodes_the_cameras_of_a_task(tmp_path: Path, method: str) -> None:
    store = collect(CAMERA_POINT, 5, 1, tmp_path / "data", workers=1)
    model = {**SMALL, "encoders": "front=dct,wide=dct"}
    config = paper_config(CAMERA_POINT, method, model, epochs=1, batch_size=4)
    train(config, store, tmp_path / "run", device="cpu")
    policy = load_policy(tmp_path / "run", device="cpu")
    names = {name for name, _ in policy.model.named_buffers() if "encoder" in name}
    assert len(names) == 4  # rows and columns, front and wide
    _, summary = evaluate(policy, CAMERA_POINT, 2, workers=0)
    assert summary["episodes"] == 2


@pytest.mark.parametrize("network", [RecallConfig, TransformerConfig])
def test_an_encoder_must_give_features(network) -> None:
    register_encoder("four")(lambda part: torch.nn.Identity())
    config = network(CAMERA_POINT.observation, CAMERA_POINT.actions, **SMALL, encoders="front=four")
    with pytest.raises(UserError, match=r"encoder 'four' makes torch.uint8 of shape \(2, 24, 24, 3\) of 2 of image"):
        config.build()


class Makes(torch.nn.Module):
    def __init__(self, make) -> None:
        super().__init__()
        self.make, self.normal = make, torch.nn.BatchNorm1d(3)

    def forward(self, images):
        return self.make(self, images.float().mean((1, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda own, seen: None, "encoder 'odd' makes a NoneType of image"),
        (lambda own, seen: seen / 0, "makes numbers of image .* that are not finite"),
        (lambda own, seen: seen[:, None, :0], r"makes torch.float32 of shape \(2, 1, 0\)"),
        (lambda own, seen: seen - seen.mean(0), "something else of one image .* alone than beside another one"),
        (lambda own, seen: torch.randn(len(seen), 4), "something else of one image .* and draw nothing"),
        (lambda own, seen: seen.nothing, r"fails on 2 of image .*test_custom_encoder.py, line \d+: AttributeError"),
    ],
)
def test_an_encoder_that_cannot_be_used_is_told_before_anything_is_trained(make, message: str) -> None:
    register_encoder("odd")(lambda part: Makes(make))
    config = RecallConfig(CAMERA_POINT.observation, CAMERA_POINT.actions, **SMALL, encoders="front=odd")
    with pytest.raises(UserError, match=message):
        config.build()


def test_an_encoder_may_see_others_while_it_learns() -> None:
    register_encoder("normal")(lambda part: Makes(lambda own, seen: own.normal(seen)))
    config = RecallConfig(CAMERA_POINT.observation, CAMERA_POINT.actions, **SMALL, encoders="front=normal")
    assert all(part.training for part in config.build().modules())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("front=dino", "--encoders front=dino: no encoder 'dino', there are .*dct"),
        ("dct", "--encoders dct: the parts are front, wide, state"),
        ("back=dct", "--encoders back=dct: the parts are front, wide, state"),
    ],
)
def test_unknown_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RecallConfig(CAMERA_POINT.observation, CAMERA_POINT.actions, encoders=text)
