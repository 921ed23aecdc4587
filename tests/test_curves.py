"""Numbers along an episode as curves, in pictures, in films and on the page."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

from attentiontuner.demos import Demonstration
from attentiontuner.spaces import ActionSpec, ObservationSpec, Part
from attentiontuner.viz.curves import MOST_LINES, curves_of
from attentiontuner.viz.pictures import draw_observations, save_episode_picture

CAMERA = Part("image", (8, 8, 3))
PARTS = ObservationSpec(parts={"left": CAMERA, "right": CAMERA, "joints": Part("vector", (3,))})
ARM = ActionSpec.box([-1, -np.inf], [1, np.inf])


def seen(steps: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    images = {name: generator.integers(0, 256, (steps, 8, 8, 3), dtype=np.uint8) for name in ("left", "right")}
    return {**images, "joints": generator.normal(size=(steps, 3)).astype(np.float32)}


def test_actions_stand_within_their_bounds_and_other_numbers_between_their_least_and_most():
    observations, actions = seen(4), np.array([[0, 5], [0.5, 5], [-0.5, 5], [1, 5]], np.float32)
    observations["joints"][:, 0] = [2, 4, 3, 2]
    acted, joints = curves_of(PARTS, ARM, observations, actions)
    assert (acted.name, joints.name) == ("actions", "joints")
    assert acted.heights[:, 0].tolist() == [0.5, 0.75, 0.25, 1.0]
    assert acted.heights[:, 1].tolist() == [0.5] * 4  # it never changes
    assert joints.heights[:, 0].tolist() == [0, 1, 0.5, 0]
    np.testing.assert_allclose(joints.values, observations["joints"])


def test_choices_are_no_curves():
    symbols = ObservationSpec("vector", (4,))
    choices = ObservationSpec(parts={"": Part("vector", (4,), choices=(4,))})
    values, actions = np.eye(4, dtype=np.float32), np.zeros(4, np.int64)
    assert [curves.name for curves in curves_of(symbols, ActionSpec.discrete(2), values, actions)] == ["observations"]
    assert curves_of(choices, ActionSpec.discrete(2), values, actions) == []


def test_of_very_many_numbers_the_first_are_drawn():
    wide = ObservationSpec("vector", (100,))
    (curves,) = curves_of(wide, ActionSpec.discrete(2), np.zeros((3, 100), np.float32), np.zeros(3, np.int64))
    assert curves.heights.shape == (3, MOST_LINES)


def test_cameras_stand_side_by_side_and_curves_show_the_vector():
    observations = seen(2)
    drawn = draw_observations(PARTS, observations, tile=16, bars=False)
    side = 7 * 8
    top, gap = (drawn.shape[1] - side) // 2, drawn.shape[2] - 2 * side
    for x, name in ((0, "left"), (side + gap, "right")):
        assert drawn[0, top, x].tolist() == observations[name][0, 0, 0].tolist()
    assert gap > 0
    assert (drawn[:, :, side : side + gap] == drawn[0, 0, 0]).all()
    assert (drawn[:, :top] == drawn[0, 0, 0]).all()  # nothing but the two cameras
    assert not (draw_observations(PARTS, observations, tile=16) == drawn[0, 0, 0])[:, -2:].all()  # and its bars below
    only = {"joints": observations["joints"]}
    vector = ObservationSpec(parts={"joints": PARTS.parts[2][1]})
    assert np.array_equal(draw_observations(vector, only, bars=False), draw_observations(vector, only))


@pytest.mark.parametrize("pairs", [None, [(1, 5)]])
def test_an_episode_is_drawn_with_its_curves(tmp_path, pairs):
    made = Demonstration(seen(9), np.zeros((9, 2), np.float32), seed=0, pairs=pairs)
    save_episode_picture(PARTS, ARM, made, tmp_path / "with.png")
    save_episode_picture(
        PARTS, ActionSpec.discrete(2), replace(made, actions=np.zeros(9, np.int64)), tmp_path / "less.png"
    )
    assert imread(tmp_path / "with.png").shape[0] > imread(tmp_path / "less.png").shape[0]
