import gymnasium as gym
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest

from attentiontuner.demos import Demonstration
from attentiontuner.spaces import MINIGRID_SYMBOLS, ActionSpec, ObservationSpec, Part
from attentiontuner.viz.pictures import draw_observation, draw_observations, episode_steps, save_episode_picture

GRID = ObservationSpec("grid", (7, 7, 3), MINIGRID_SYMBOLS)


def test_grids_look_as_minigrid_draws_them():
    env = gym.make("MiniGrid-DoorKey-8x8-v0").unwrapped
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=3)
    frames, expected = [], []
    for _ in range(60):
        frames.append(observation["image"])
        expected.append(env.get_pov_render(8))
        observation, *_ = env.step(int(rng.integers(6)))
    drawn = draw_observations(GRID, np.stack(frames), tile=8)
    np.testing.assert_array_equal(drawn, np.stack(expected))
    np.testing.assert_array_equal(draw_observation(GRID, frames[5], tile=8), expected[5])


@pytest.mark.parametrize("upright", [True, False])
def test_images_are_drawn_upright_and_enlarged_without_blur(upright):
    spec = ObservationSpec("image", (4, 6, 3), upright=upright)
    frame = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    drawn = draw_observation(spec, frame, tile=2)
    assert drawn.shape == (12, 12, 3)  # 8 × 12 in the middle of a square
    drawn = drawn[2:10] if upright else drawn[:, 2:10]
    for first, second in ((0, 0), (3, 5), (2, 1)):
        row, column = (first, second) if upright else (second, first)
        assert (drawn[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] == frame[first, second]).all()


def test_vectors_share_one_scale():
    spec = ObservationSpec("vector", (3,))
    drawn = draw_observations(spec, np.array([[1.0, -1.0, 0.0], [4.0, 0.0, np.nan]]), tile=8)
    heights = [(drawn[i, :28, 5] != 245).any(axis=1).sum() for i in range(2)]
    assert heights[1] >= 3 * heights[0] > 0


@pytest.mark.parametrize("symbols", [(9,), (9, 4)])
def test_grids_of_other_symbols_can_be_told_apart(symbols):
    spec = ObservationSpec("grid", (3, 2, len(symbols)), symbols)
    a = np.zeros((3, 2, len(symbols)), np.uint8)
    b = a.copy()
    b[2, 1] = 3
    drawn = draw_observations(spec, np.stack([a, b]), tile=4)
    assert drawn.shape == (2, 8, 12, 3)
    differs = (drawn[0] != drawn[1]).any(axis=2)
    assert differs[5:8, 9:12].all()
    assert not differs[:4].any()


def test_parts_stand_side_by_side_in_a_square():
    parts = {
        "gray": Part("image", (4, 4, 1)),
        "view": Part("grid", (7, 7, 3), MINIGRID_SYMBOLS),
        "arm": Part("vector", (2,)),
    }
    spec = ObservationSpec(parts=parts)
    seen = {
        "gray": np.full((2, 4, 4, 1), 100, np.uint8),
        "view": np.ones((2, 7, 7, 3), np.uint8),
        "arm": np.ones((2, 2), np.float32),
    }
    drawn = draw_observations(spec, seen, tile=8)
    assert drawn.shape == (2, 58, 58, 3)  # two in a row of 28 each with a gap between them, then one
    assert (drawn[:, :28, :28] == 100).all()
    assert (drawn[:, 28:30] == 245).all()
    assert (drawn[:, :, 28:30] == 245).all()
    alone = draw_observations(ObservationSpec(parts={"": parts["view"]}), seen["view"], tile=4)
    np.testing.assert_array_equal(drawn[:, :28, 30:], alone)
    assert (drawn[:, 30:, :28] != 245).any()
    assert (drawn[:, 30:, 30:] == 245).all()
    np.testing.assert_array_equal(draw_observation(spec, {name: array[1] for name, array in seen.items()}, 8), drawn[1])


def test_parts_that_are_large_enough_have_their_names_above_them():
    view = Part("image", (32, 32, 3))
    black = np.zeros((32, 32, 3), np.uint8)

    def names_of(*names, tile=32):
        spec = ObservationSpec(parts=dict.fromkeys(names, view))
        drawn = draw_observation(spec, dict.fromkeys(names, black), tile)
        top = np.argwhere((drawn == 0).all(-1))[0][0]
        return drawn[top - 16 : top], drawn.shape

    written, shape = names_of("front", "wrist")
    assert shape[0] == shape[1]
    for half in np.array_split(written, 2, axis=1):
        assert (half < 200).any()
    assert not np.array_equal(written, names_of("front", "other")[0])
    # What all names begin with tells nothing, and what is too long is cut.
    assert np.array_equal(written, names_of("observation.images.front", "observation.images.wrist")[0])
    long = names_of("a name that is far too long for its picture", "wrist")[0]
    assert np.array_equal(long[:, long.shape[1] // 2 :], written[:, long.shape[1] // 2 :])
    assert (names_of("front", "wrist", tile=16)[0] == 245).all()


def test_a_part_that_is_drawn_alone_has_no_name():
    parts = {"camera": Part("image", (32, 32, 3)), "state": Part("vector", (2,))}
    seen = {"camera": np.full((32, 32, 3), 9, np.uint8), "state": np.zeros(2, np.float32)}
    drawn = draw_observation(ObservationSpec(parts=parts), seen, tile=32, bars=False)
    assert drawn.shape == (224, 224, 3)
    assert (drawn == 9).all()


SHOWN = [(1, (9, 9, 9)), (2, (9, 8, 0)), (3, (9, 8, 7)), (4, (9, 8, 7)), (6, (6, 5, 4))]


@pytest.mark.parametrize(("channels", "shown"), SHOWN)
def test_images_of_any_number_of_channels(channels, shown):
    image = np.broadcast_to(np.array([9, 8, 7, 6, 5, 4][:channels], np.uint8), (4, 4, channels))
    drawn = draw_observation(ObservationSpec("image", (4, 4, channels)), image, tile=4)
    assert (drawn == np.array(shown)).all()


def test_large_images_are_drawn_smaller():
    image = np.zeros((100, 230, 3), np.uint8)
    image[:2, :4] = 200
    drawn = draw_observation(ObservationSpec("image", image.shape), image, tile=8)  # 56 wide, or a little more
    assert drawn.shape == (57, 57, 3)
    assert drawn[16, :2].tolist() == [[100] * 3, [0] * 3]
    assert (drawn[:16] == 245).all()
    narrow = np.full((1, 500, 1), 7, np.uint8)
    assert 7 in draw_observation(ObservationSpec("image", narrow.shape), narrow, tile=1)


@pytest.mark.parametrize("pairs", [None, [], [(1, 5), (1, 20, 2), (7, 69)]])
def test_an_episode_is_drawn(tmp_path, pairs):
    frames = np.ones((70, 7, 7, 3), np.uint8)
    made = Demonstration(frames, np.zeros(70, np.int64), np.zeros(70), True, False, 1, True, pairs)
    steps = episode_steps(made)
    assert steps == sorted(set(steps))
    assert len(steps) <= 14
    assert {0, 69} <= set(steps)
    if pairs:
        assert {1, 5, 7, 20} <= set(steps)
    save_episode_picture(GRID, ActionSpec.discrete(3), made, tmp_path / "e.png", "toy")
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")


def test_every_step_of_a_short_episode_is_shown():
    frames = np.ones((14, 7, 7, 3), np.uint8)
    made = Demonstration(frames, np.zeros(14, np.int64), np.zeros(14), True, False, 1, True, [(1, 7), (1, 11)])
    assert episode_steps(made) == list(range(14))
