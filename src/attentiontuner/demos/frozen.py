"""Arrays of records: nobody can change them, neither through the record nor through the array it was made from."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def frozen(given: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """`given` as a read-only array; a copy, unless it was read-only all the way down already."""
    array = np.asarray(given, dtype)
    if array is given or array.base is not None:
        if not _writeable(array):
            return array
        array = array.copy()
    array.setflags(write=False)
    return array


def _writeable(array: Any) -> bool:
    """Whether somebody could write into the memory of an array: through it, or through what it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None and not isinstance(array, bytes)
