"""An encoder of your own for the images of a task: frozen features of another library, here SciPy's cosine transform.

attentiontuner --import examples/custom_encoder.py train hallway-camera --encoders dct --data data/camera --out runs/dct
"""

import torch
from scipy.fft import dct
from torch import nn

from attentiontuner import register_encoder

FREQUENCIES = 8


@register_encoder("dct")
class CosineTransform(nn.Module):
    """The lowest frequencies of each colour, one place for each: images `[n, H, W, C]` → `[n, places, C]`.

    A trained network takes its place in the same way: make it in `__init__`, freeze it with `requires_grad_(False)`,
    and keep it in `eval()` mode by overriding `train`. Its weights are saved with the run.
    """

    def __init__(self, part):
        super().__init__()
        for side, name in zip(part.shape[:2], ("rows", "columns"), strict=True):
            waves = dct(torch.eye(side).numpy(), axis=0, norm="ortho")[:FREQUENCIES]
            self.register_buffer(name, torch.from_numpy(waves).float())

    def forward(self, images):
        return torch.einsum("fh,nhwc,gw->nfgc", self.rows, images.float() / 255, self.columns).flatten(1, 2)
