"""What moves the weights of a network."""

import torch
from torch import Tensor

from attentiontuner.models.network import Network


def make_optimiser(model: Network, learning_rate: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """The paper's Adam (β 0.9, 0.999; ε 1e-8), fused, and recordable in a CUDA graph; with weight decay AdamW, whose
    decay is of matrices only. Single numbers learn as much faster as the network has `haste`."""
    parameters = list(model.parameters())
    hasty = [each for each in parameters if each.dim() == 0] if model.haste != 1 else []
    others = [each for each in parameters if each.dim() > 0 or not hasty]
    groups = [(others, 0.0, 1.0)]
    if weight_decay:
        matrices, vectors = ([each for each in others if (each.dim() > 1) is many] for many in (True, False))
        groups = [(matrices, weight_decay, 1.0), (vectors, 0.0, 1.0)]
    if hasty:
        groups.append((hasty, 0.0, model.haste))
    device = parameters[0].device
    settings = [
        {
            "params": some,
            "weight_decay": decay,
            "lr": torch.zeros((), device=device) if device.type == "cuda" else 0.0,
            "times": times,
        }
        for some, decay, times in groups
    ]
    kind = torch.optim.AdamW if weight_decay else torch.optim.Adam
    optimiser = kind(settings, fused=True, capturable=device.type == "cuda")
    set_learning_rate(optimiser, learning_rate)
    return optimiser


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the steps from here on; in a recorded graph it is read from where it stands."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["times"])
        else:
            group["lr"] = rate * group["times"]
