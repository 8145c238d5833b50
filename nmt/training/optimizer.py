"""Adam (Kingma and Ba 2015; section 5.3 of the paper), AdamW (Loshchilov, Hutter 2019), Muon."""

import torch
from torch import nn

from nmt.config import ModelConfig, OptimizerConfig, OptimizerName
from nmt.training import muon


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer of all parameters; the learning rate is set before each step."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    if config.name is OptimizerName.muon:
        layers = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
        return muon.Muon(
            [p for p in matrices if id(p) in layers],
            [p for p in matrices if id(p) not in layers],
            vectors,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
        )
    kind = torch.optim.Adam if config.name is OptimizerName.adam else torch.optim.AdamW
    return kind(
        [
            # Decay pulls weights to zero; biases and norms have no reason to be there.
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def step_flops(config: OptimizerConfig, model: ModelConfig) -> int:
    """Floating-point operations of a step's matrix products; other work is not counted."""
    return muon.step_flops(model) if config.name is OptimizerName.muon else 0
