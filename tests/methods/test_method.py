"""What every method has, and what is refused of one's own."""

import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.methods.method import Method
from attentiontuner.models.heads import Head
from tests.methods.configs import run_of
from tests.models.test_transformer import GRID, packed_demos, small


class Forgetful(Method):
    name, title = "forgetful", "Told the pairs, and does nothing with them"


def test_a_method_that_is_told_the_pairs_must_do_something_with_them():
    batch = DemoData(packed_demos(GRID, [3, 5], 4)).batch(np.arange(2))
    with pytest.raises(UserError, match="method 'forgetful' has no memory_loss: write one"):
        Forgetful().loss(small(GRID)(batch, (Head(0, 0),)), batch, run_of())
