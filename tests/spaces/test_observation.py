"""One specification checks, encodes and decodes observations wherever they come from."""

import gymnasium as gym
import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.spaces import ObservationSpec, Part, SpaceError

GRID = ObservationSpec("grid", (2, 2, 3), (11, 6, 3))
IMAGE = ObservationSpec("image", (4, 5, 3))
VECTOR = ObservationSpec("vector", (3,))
BOTH = ObservationSpec(parts={"camera": Part("image", (4, 5, 1)), "joints": Part("vector", (3,))})


@pytest.mark.parametrize("spec", [GRID, IMAGE, VECTOR, BOTH, ObservationSpec("grid", (1, 1, 1), (256,))], ids=str)
def test_bytes_and_json_come_back_as_they_were(spec):
    generator = np.random.default_rng(3)
    arrays = {
        name: generator.standard_normal((6, *part.shape)).astype(np.float32)
        if part.kind == "vector"
        else generator.integers(0, part.symbols or 256, (6, *part.shape), np.uint8)
        for name, part in spec.parts
    }
    given = arrays[""] if spec.plain else arrays
    encoded = spec.encode(given)
    assert (encoded.shape, encoded.dtype) == ((6, spec.nbytes), np.uint8)
    back = spec.decode(encoded)
    for name, array in arrays.items():
        found = back if spec.plain else back[name]
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
    assert ObservationSpec.from_json(spec.to_json()) == spec


def test_one_number_for_a_shape_is_told_how_to_be_written():
    with pytest.raises(UserError, match=r"^observation shape 3: write \(3,\)$"):
        ObservationSpec("vector", 3)
    with pytest.raises(UserError, match=r"^observation symbols 11: write \(11,\)$"):
        Part("grid", (7, 7, 1), 11)


def test_the_bytes_of_one_part_are_a_view():
    images = np.zeros((2, 4, 5, 3), np.uint8)
    assert np.shares_memory(IMAGE.encode(images), images)
    assert np.shares_memory(IMAGE.decode(IMAGE.encode(images)), images)


def bad(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("spec", "given", "row", "message"),
    [
        (GRID, bad(np.zeros((3, 2, 2, 3), np.uint8), (1, 0, 1, 2), 3), 1, "symbol 3 in channel 2, which has 3 symbols"),
        (GRID, bad(np.zeros((3, 2, 2, 3), np.uint8), (2, 0, 1, 0), 250), 2, "symbol 250 in channel 0"),
        (GRID, bad(np.zeros((3, 2, 2, 3), np.int64), (2, 0, 1, 0), -1), 2, "the number -1: give whole numbers"),
        (GRID, np.zeros((3, 2, 2), np.uint8), 0, r"uint8 of shape \(2, 2\), not uint8 of shape \(2, 2, 3\)"),
        (IMAGE, np.zeros((3, 4, 5, 3)), 0, "float64, not uint8: give .255"),
        (IMAGE, np.full((3, 4, 5, 3), 254.7), 0, r"float64, not uint8: give images\.astype\('uint8'\)$"),
        (IMAGE, np.full((3, 4, 5, 3), -0.5), 0, "float64, not uint8: give whole numbers from 0 to 255$"),
        (IMAGE, bad(np.zeros((3, 4, 5, 3), int), (1, 1, 1, 1), 256), 1, "the number 256"),
        (IMAGE, "picture", 0, "no array of numbers, but str"),
        (VECTOR, bad(np.zeros((3, 3)), (2, 1), np.nan), 2, "not finite"),
        (VECTOR, bad(np.zeros((3, 3)), (1, 1), 1e300), 1, "not finite"),
        (VECTOR, np.zeros((3, 4)), 0, r"float64 of shape \(4,\), not float32 of shape \(3,\)"),
        (BOTH, {"camera": np.zeros((3, 4, 5, 1), np.uint8)}, 0, "parts camera, joints are promised, not camera"),
        (BOTH, np.zeros((3, 4)), 0, "camera, joints are promised, not one ndarray"),
        (
            BOTH,
            {"camera": np.zeros((3, 4, 5, 1), np.uint8), "joints": bad(np.zeros((3, 3)), (2, 1), np.inf)},
            2,
            "part 'joints': a number that is not finite",
        ),
        (BOTH, {"camera": np.zeros((3, 4, 5), np.uint8), "joints": np.zeros((2, 3))}, 0, "parts of 3 and 2 obs"),
    ],
)
def test_what_is_not_promised_is_refused_with_its_row(spec, given, row, message):
    with pytest.raises(SpaceError, match=message) as refused:
        spec.encode(given)
    assert refused.value.row == row


@pytest.mark.parametrize(
    ("space", "observation", "wanted"),
    [
        (gym.spaces.Discrete(3), 2, [0, 0, 1]),
        (gym.spaces.MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(3)]), (0, 2), [1, 0, 0, 0, 1]),
        (
            gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])]),
            (1, np.array([0, 1])),
            [0, 1, 1, 0, 0, 1],
        ),
        (gym.spaces.Box(-1, 1, (2, 2)), np.array([[0.5, 0], [0, 1]]), [0.5, 0, 0, 1]),
        (gym.spaces.MultiBinary(2), np.array([0, 1], np.int8), [0, 1]),
    ],
    ids=str,
)
def test_gymnasium_spaces_become_vectors(space, observation, wanted):
    spec = ObservationSpec.from_space(space)
    assert spec.one(observation).tolist() == wanted


def test_a_dict_space_has_named_parts_within_one_another():
    inner = gym.spaces.Dict(wrist=gym.spaces.Box(0, 255, (8, 9), np.uint8), touch=gym.spaces.Discrete(2))
    space = gym.spaces.Dict(arm=inner, joints=gym.spaces.Box(-1, 1, (7,)))
    spec = ObservationSpec.from_space(space)
    assert {name: str(part) for name, part in spec.parts} == {
        "arm.touch": "vector 2",
        "arm.wrist": "image 8×9×1",
        "joints": "vector 7",
    }
    seen = spec.one(space.sample())
    assert seen["arm.wrist"].shape == (8, 9, 1)
    assert seen["arm.touch"].sum() == 1


def stacked(image):
    return np.stack(np.split(image, 4, -1))


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((28, 30, 1), lambda image: image[..., 0]),
        ((28, 30, 1), lambda image: image.transpose(2, 0, 1)),
        ((96, 64, 3), lambda image: image.transpose(2, 0, 1)),
        ((84, 80, 8), lambda image: image.transpose(2, 0, 1)),  # eight gray ones
        ((84, 80, 4), stacked),
        ((84, 80, 12), stacked),
        ((84, 80, 12), lambda image: stacked(image).transpose(0, 3, 1, 2)),
        ((84, 84, 8), lambda image: image),
        ((2, 64, 3), lambda image: image),
        ((9, 11, 20), lambda image: image),
    ],
)
def test_images_may_be_stacked_or_have_their_channels_first(shape, layout):
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    given = layout(image)
    spec = ObservationSpec.from_space(gym.spaces.Box(0, 255, given.shape, np.uint8))
    assert spec == ObservationSpec("image", shape)
    assert np.array_equal(spec.one(given), image)
    assert np.array_equal(spec.decode(spec.encode(np.stack([image, image]))), spec.decode(spec.encode([given, given])))


def test_a_tuple_within_a_dict_is_one_part():
    choices = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 3])])
    spec = ObservationSpec.from_space(gym.spaces.Dict(said=choices, joints=gym.spaces.Box(-1, 1, (1,))))
    one = {"said": (1, np.array([0, 2])), "joints": np.zeros(1)}
    assert spec.one(one)["said"].tolist() == [0, 1, 1, 0, 0, 0, 1]
    several = {"said": (np.array([0, 1]), np.array([[1, 1], [0, 2]])), "joints": np.zeros((2, 1))}
    assert np.array_equal(spec.encode(several)[1], spec.encode_one(one))


def test_several_observations_of_a_tuple_are_several_arrays():
    spec = ObservationSpec.from_space(gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(3)]))
    rows = spec.decode(spec.encode((np.array([0, 1]), np.array([2, 0]))))
    assert [row.tolist() for row in rows] == [spec.one((0, 2)).tolist(), spec.one((1, 0)).tolist()]


def test_what_cannot_be_learned_from_is_refused():
    for space in (gym.spaces.Text(5), gym.spaces.MultiDiscrete(np.full((5, 5, 3), 256))):
        with pytest.raises(UserError, match="cannot be learned from") as refused:
            ObservationSpec.from_space(space)
        assert "\n" not in str(refused.value)
    with pytest.raises(SpaceError, match="choice 3, but there are 3") as refused:
        ObservationSpec.from_space(gym.spaces.Discrete(3)).encode(np.array([0, 3]))
    assert refused.value.row == 1


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((24, 24, 3), 0, 1), ((3, 24, 24), -np.inf, np.inf), ((84, 84), 0, 1), ((84, 84), 0, 255), ((24, 24, 1), -1, 1)],
)
def test_images_of_floats_are_no_vectors(shape, low, high):
    space = gym.spaces.Box(low, high, shape, np.float32)
    for whole, which in ((space, ""), (gym.spaces.Dict(arm=gym.spaces.Dict(eye=space)), r" \(arm\.eye\)")):
        with pytest.raises(
            UserError, match=rf"{which} look like an image, and are floats: make uint8 of them .*255"
        ) as no:
            ObservationSpec.from_space(whole)
        assert "\n" not in str(no.value)


@pytest.mark.parametrize("shape", [(1728,), (4, 4), (2, 3, 3), (1024, 3), (10, 40), (12, 12, 12), (2, 2, 24, 24)])
def test_arrays_of_floats_that_are_no_images_are_vectors(shape):
    spec = ObservationSpec.from_space(gym.spaces.Box(-1, 1, shape, np.float32))
    assert spec == ObservationSpec("vector", (int(np.prod(shape)),))


def test_one_choice_is_what_many_are():
    for choices, numbers in (
        ((4,), 3),
        ((2, 3), (1, 2)),
        ((2, 3), [0, 1]),
        ((2, 3), np.array([1, 0])),
        ((1, 1), (0, 0)),
    ):
        part = Part("vector", (sum(choices),), choices=choices)
        many = part.encode(np.atleast_2d(np.array(numbers)).reshape(1, -1))
        np.testing.assert_array_equal(part.encode_one(numbers), many[0])
        np.testing.assert_array_equal(part.one(numbers), part.decode(many)[0])
    part = Part("vector", (5,), choices=(2, 3))
    for bad, told in (((0, 3), "choice 3, but there are 3"), ((-1, 0), "choice -1"), ((0, 0.5), "choice 0.5")):
        for take in (part.one, part.encode_one):
            with pytest.raises(SpaceError, match=told):
                take(bad)
