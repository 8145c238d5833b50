"""Translate with Hugging Face's `generate` and the weights of a model folder.

Post-norm models use the Marian architecture, pre-norm models the otherwise equal Pegasus.

Run by an interpreter with torch, transformers and safetensors; it imports nothing of this project.
The first line of stdin is a job as JSON, answered by `{}` when the model is loaded. Then each line
`all` translates all sentences, and `single N` the first N one by one.
"""

import json
import resource
import sys
import time
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

ARCHITECTURES = {
    "post": (MarianConfig, MarianMTModel),
    "pre": (PegasusConfig, PegasusForConditionalGeneration),
}

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
SUBLAYERS = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "self_attention_residual.norm": "self_attn_layer_norm",
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}


def hf_name(name: str) -> str:
    """`encoder.0.feed_forward.inner.weight` → `model.encoder.layers.0.fc1.weight`."""
    if name == "output_weight":  # shared by all embeddings
        return "model.shared.weight"
    if name.startswith(("encoder_norm", "decoder_norm")):  # at the end of a pre-norm stack
        return f"model.{name.replace('_norm', '.layer_norm')}"
    stack, number, rest = name.split(".", 2)
    rest, _, kind = rest.rpartition(".")
    sublayer, _, part = rest.rpartition(".")
    name = SUBLAYERS.get(rest) or f"{SUBLAYERS[sublayer]}.{ATTENTION[part]}"
    return f"model.{stack}.layers.{number}.{name}.{kind}"


def position_table(length: int, width: int) -> Tensor:
    """Return the paper's table, sine and cosine interleaved; Hugging Face's has sines first."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def build(job: dict[str, Any]) -> Any:
    """Return the model with the given weights, in half precision on a GPU."""
    ours = job["model"]
    make_config, make_model = ARCHITECTURES[ours["norm"]]
    config = make_config(
        vocab_size=job["vocabulary_size"],
        d_model=ours["width"],
        encoder_layers=ours["num_encoder_layers"],
        decoder_layers=ours["num_decoder_layers"],
        encoder_attention_heads=ours["num_heads"],
        decoder_attention_heads=ours["num_heads"],
        encoder_ffn_dim=ours["feed_forward_width"],
        decoder_ffn_dim=ours["feed_forward_width"],
        activation_function=ours["activation"],
        max_position_embeddings=ours["max_length"],
        scale_embedding=True,
        pad_token_id=job["pad_id"],
        bos_token_id=job["bos_id"],
        eos_token_id=job["eos_id"],
        decoder_start_token_id=job["bos_id"],
        forced_eos_token_id=None,
    )
    model = make_model(config)
    weights = {hf_name(name): tensor for name, tensor in load_file(job["weights"]).items()}
    absent, unknown = model.load_state_dict(weights, strict=False)
    # Tied copies of the shared matrix, the fixed tables, and a bias of zeros.
    known = ("embed_tokens.weight", "lm_head.weight", "embed_positions.weight", "final_logits_bias")
    assert not unknown
    assert all(name.endswith(known) for name in absent)
    model.tie_weights()
    table = position_table(ours["max_length"], ours["width"])
    with torch.no_grad():
        model.model.encoder.embed_positions.weight.copy_(table)
        model.model.decoder.embed_positions.weight.copy_(table)
    model.eval().to(job["device"])
    return model.half() if job["device"] == "cuda" else model


@torch.inference_mode()
def generate(model: Any, job: dict[str, Any], batch: list[list[int]]) -> list[list[int]]:
    """Return the best translation of each source, without BOS, EOS and padding."""
    longest = max(map(len, batch)) + 1
    rows = [[*ids, job["eos_id"], *[job["pad_id"]] * (longest - 1 - len(ids))] for ids in batch]
    source = torch.tensor(rows, device=job["device"])
    found = model.generate(
        input_ids=source,
        attention_mask=(source != job["pad_id"]).long(),
        num_beams=job["beam_size"],
        length_penalty=job["length_penalty"],
        early_stopping=True,
        do_sample=False,
        min_new_tokens=job["shortest"],
        max_new_tokens=job["longest"] or 2 * longest + 10,  # as nmt
    )
    special = {job["bos_id"], job["eos_id"], job["pad_id"]}
    return [[index for index in row if index not in special] for row in found.tolist()]


def translate_all(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Translate all sentences in batches of similar length."""
    sources = job["sources"]
    started = time.perf_counter()
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    found: list[list[int]] = [[] for _ in sources]
    for start in range(0, len(order), job["batch_size"]):
        indices = order[start : start + job["batch_size"]]
        batch = generate(model, job, [sources[index] for index in indices])
        for index, ids in zip(indices, batch, strict=True):
            found[index] = ids
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "ids": found}


def single(model: Any, job: dict[str, Any], number: int) -> dict[str, Any]:
    """Measure the seconds of each of the first sentences, one by one."""
    seconds = []
    for ids in job["sources"][:number]:
        started = time.perf_counter()
        generate(model, job, [ids])
        seconds.append(time.perf_counter() - started)
    return {"each": seconds}


def main() -> None:
    """Answer each line of stdin with a line of stdout."""
    job = json.loads(sys.stdin.readline())
    torch.set_num_threads(job["threads"])
    model = build(job)
    print("{}", flush=True)
    for line in sys.stdin:
        command, *number = line.split()
        answer = single(model, job, int(number[0])) if number else translate_all(model, job)
        assert command in {"all", "single"}
        answer["peak_mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
