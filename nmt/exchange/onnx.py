"""Export to ONNX, for onnxruntime, optimum and transformers.js.

    onnx/{encoder_model,decoder_model_merged}{,_quantized}.onnx
    config.json  generation_config.json  and the tokenizer files of Hugging Face

The names are those of optimum and transformers.js. From `config.json`, both read only the width of
the logits, and names and sizes of the cache, so `model_type` is `marian` for every variant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor

from nmt.base.files import write_json
from nmt.data.batch import pad_ids
from nmt.exchange import huggingface
from nmt.exchange.foreign_tokenizer import tokenizer_json
from nmt.exchange.interface import Runtime, transformer_of, usage_of
from nmt.exchange.onnx_transformer import decoder_graph, encoder_graph
from nmt.exchange.runtimes import EngineRuntime, greedy, score
from nmt.search.request import Ids, Request, TargetIds
from nmt.search.search import beam_search
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.engine import BatchResults, Engine, banned_ids

_FOLDER = "onnx"
_ENCODER, _DECODER = "encoder_model", "decoder_model_merged"
_QUANTIZED = "_quantized"


class OnnxExporter:
    """Writes graphs in float32 and with 8-bit weights; see `Exporter`."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError unless the model is a Transformer that can be exported."""
        transformer_of(model)

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write graphs, settings and tokenizers into an empty folder."""
        (folder / _FOLDER).mkdir()
        for name, build in ((_ENCODER, encoder_graph), (_DECODER, decoder_graph)):
            network = build(transformer_of(model))
            onnx.save(network, _path(folder, name))
            # Without this mark, onnxruntime recommends a preprocessing that is not needed.
            onnx.helper.set_model_props(network, {"onnx.quant.pre_process": "onnxruntime.quant"})
            # Sums of int8 products overflow on CPUs without VNNI; those of uint8 do not.
            quantize_dynamic(
                network,
                _path(folder, name + _QUANTIZED),
                weight_type=QuantType.QUInt8,
                extra_options={"EnableSubgraph": True},
            )
        # optimum assumes that `vocab_size` is the width of the logits.
        config = huggingface.network_config(model, model.target_tokenizer.vocabulary_size)
        config |= {"model_type": "marian", "architectures": ["MarianMTModel"]}
        write_json(folder / huggingface.CONFIG_FILE, config)
        generation = huggingface.generation_config(model)
        # transformers.js does not know suppress_tokens.
        generation["bad_words_ids"] = [[index] for index in banned_ids(model.target_tokenizer)]
        write_json(folder / huggingface.GENERATION_FILE, generation)
        huggingface.write_tokenizers(model, folder)

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open the graphs in float32, and those with 8-bit weights."""
        return [OnnxRuntime(model, folder), OnnxRuntime(model, folder, _QUANTIZED)]

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        target, config = model.target_tokenizer, model.config
        # transformers.js needs `tokenizer.json`, one tokenizer, and heads of width D / H.
        widths = {config.model.head_key_width, config.model.head_value_width}
        has_pipeline = (
            model.source_tokenizer.path == target.path
            and tokenizer_json(target) is not None
            and widths == {config.model.width // config.model.num_heads}
        )
        return usage_of(
            "onnx",
            model=model,
            target=target,
            source_file=huggingface.SOURCE_FILE,
            target_file=huggingface.TARGET_FILE,
            banned=list(banned_ids(target)),
            has_pipeline=has_pipeline,
        )


@dataclass
class _State:
    """Inputs of the decoder that have N rows, besides the tokens."""

    inputs: dict[str, Any]

    def reorder(self, rows: Tensor) -> "_State":
        return _State({name: values[rows.numpy()] for name, values in self.inputs.items()})


class OnnxRuntime(EngineRuntime, Engine):
    """The graphs of an export, run by onnxruntime with greedy search; see `Runtime`.

    Args:
        model: the exported model, for its limits.
        folder: the export.
        suffix: end of the names of the graphs.
    """

    def __init__(self, model: TrainedModel, folder: Path, suffix: str = "") -> None:
        self._source, self._target = (
            Tokenizer(folder / name) for name in (huggingface.SOURCE_FILE, huggingface.TARGET_FILE)
        )
        exported = TrainedModel(model.config, model.network, self._source, self._target)
        Engine.__init__(self, greedy(model), exported)
        self._engine = self
        self.program = "onnxruntime with 8-bit weights" if suffix else "onnxruntime"
        self.tolerance = math.inf if suffix else 1e-4
        self._encoder, self._decoder = (
            _session(_path(folder, name + suffix)) for name in (_ENCODER, _DECODER)
        )
        # The outputs after the logits are the next cache, in the order of these inputs.
        self._cache = [one for one in self._decoder.get_inputs() if one.name.startswith("past_")]

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS."""

        def logits(sources: Sequence[Ids], targets: Sequence[Ids]) -> Tensor:
            inputs, _ = pad_ids(targets, self._target.pad_id, before=self._target.bos_id)
            return self._run(inputs, self._start(sources))[0]

        return score(logits, sources, targets, self._target)

    def _search_batches(self, requests: Sequence[Request]) -> BatchResults:
        def step(tokens: Tensor, state: _State) -> tuple[Tensor, _State]:
            logits, state = self._run(tokens[:, None], state)
            return logits[:, 0], state

        ids = TargetIds(self._target.bos_id, self._target.eos_id, banned_ids(self._target))
        for batch in self._batches(requests):
            chosen = [requests[index] for index in batch]
            state = self._start([request.source for request in chosen])
            yield batch, beam_search(step, state, self._config, ids, chosen)

    def _start(self, sources: Sequence[Sequence[int]]) -> _State:
        """Run the encoder, and return the state before the first token."""
        ids, mask = pad_ids(sources, self._source.pad_id, after=self._source.eos_id)
        attended = mask.long().numpy()
        inputs = {"input_ids": ids.numpy(), "attention_mask": attended}
        (memory,) = self._encoder.run(None, inputs)
        empty = {
            one.name: np.zeros((len(ids), one.shape[1], 0, one.shape[3]), np.float32)
            for one in self._cache
        }
        return _State(
            {"encoder_attention_mask": attended, "encoder_hidden_states": memory, **empty}
        )

    def _run(self, tokens: Tensor, state: _State) -> tuple[Tensor, _State]:
        """Return the decoder's logits (N, T, V) after tokens (N, T), and the next state."""
        names = [one.name for one in self._cache]
        is_later = state.inputs[names[0]].shape[2] > 0
        inputs = {"input_ids": tokens.numpy(), "use_cache_branch": np.array([is_later])}
        logits, *cache = self._decoder.run(None, inputs | state.inputs)
        cached = dict(zip(names, cache, strict=True))
        return torch.from_numpy(logits), _State(state.inputs | cached)


def _path(folder: Path, name: str) -> Path:
    return folder / _FOLDER / f"{name}.onnx"


def _session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
