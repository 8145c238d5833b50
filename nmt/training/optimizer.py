"""Adam as in the paper (section 5.3), AdamW (Loshchilov and Hutter 2019), Muon, and LoRA."""

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig, OptimizerName
from nmt.training import muon
from nmt.training.lora import LoRA

_CLASSES = {
    OptimizerName.adam: torch.optim.Adam,
    OptimizerName.adamw: torch.optim.AdamW,
    OptimizerName.muon: muon.Muon,
}


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Build the optimizer of all parameters; the caller sets the learning rate before each step.

    With `lora_rank`, the optimizer trains low-rank changes of the hidden matrices, and all other
    parameters are frozen.
    """
    options = {"lr": 0.0, "betas": (config.beta1, config.beta2), "eps": config.epsilon}
    if config.lora_rank:
        trained = hidden_matrices(model)
        for parameter in model.parameters():
            parameter.requires_grad_(any(parameter is one for one in trained))
        return LoRA(trained, config, fused=True, **options)
    hidden = hidden_matrices(model) if config.name is OptimizerName.muon else []
    matrices = [p for p in model.parameters() if p.dim() > 1 and p not in set(hidden)]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},  # biases and norms are not pulled to zero
    ]
    if hidden:
        momentum, decay = config.momentum, config.weight_decay
        groups.insert(0, {"params": hidden, "momentum": momentum, "weight_decay": decay})
    return _CLASSES[config.name](groups, fused=True, **options)


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """Return the weights of linear layers, except the output projection to the vocabulary."""
    output = getattr(model, "output_weight", None)
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [layer.weight for layer in layers if layer.weight is not output]


def step_flops(config: OptimizerConfig, model: nn.Module) -> int:
    """Return the FLOPs of the matrix products of one optimizer step; only Muon has any."""
    if config.name is not OptimizerName.muon:
        return 0
    return sum(muon.orthogonal_flops(*weight.shape) for weight in hidden_matrices(model))
