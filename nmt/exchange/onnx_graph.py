"""An ONNX graph under construction."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 17, 8  # the first opset with LayerNormalization


class Graph:
    """Nodes and constants of an ONNX graph; methods that add a value return its name."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        output = output or f"{operator}_{next(self._numbers)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, values: Any) -> str:
        """Add a constant, unless there is one of this name."""
        if name not in self._constants:
            array = np.array(values, order="C")  # a transposed array has another order
            self._constants[name] = numpy_helper.from_array(array, name)
        return name

    def integers(self, *values: int) -> str:
        """Add a vector of int64."""
        return self.constant(f"integers_{values}", np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """Add an int as int64, or a float as float32."""
        dtype = np.int64 if isinstance(value, int) else np.float32
        return self.constant(f"scalar_{value!r}", np.array(value, dtype))

    def choose(
        self,
        condition: str,
        if_true: Callable[[], Sequence[str]],
        if_false: Callable[[], Sequence[str]],
        outputs: Sequence[str],
    ) -> None:
        """Add a node whose float32 outputs are those of one of two branches.

        `if_true` and `if_false` each add the nodes of one branch, and return the names of its
        results. A branch may use all values that were added to the graph before it.
        """
        branches, outer = [], self._nodes
        for add_branch in (if_true, if_false):
            self._nodes = []
            # A result may come from outside the branch, but must be the output of a node in it.
            names = [self.add("Identity", name) for name in add_branch()]
            types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
            branches.append(helper.make_graph(self._nodes, "branch", [], types))
        self._nodes = outer
        then, otherwise = branches
        node = helper.make_node("If", [condition], outputs, then_branch=then, else_branch=otherwise)
        self._nodes.append(node)

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> onnx.ModelProto:
        """Return the complete model."""
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, "nmt", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def value_of(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Describe an input or output of a graph: its name, shape and type."""
    return helper.make_tensor_value_info(name, kind, shape)
