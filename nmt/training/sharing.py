"""Gradients summed over processes, while the backward pass that makes them still runs.

torch's DistributedDataParallel does the same, but cannot be left in the middle: a process whose
memory runs out in its backward pass would keep all others waiting. Here it shares what it has, and
all learn afterwards that the update has to be made again.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from nmt.training.distributed import Process

# Bytes of a bucket. One sum of many gradients costs less than many sums, and the first should begin
# long before the last gradient is there.
_BUCKET_BYTES = 25_000_000


class GradientSharing:
    """Sums the gradients of some parameters over all processes, bucket by bucket.

    Gradients are views of the buckets afterwards, until they are set to None.

    Args:
        parameters: in the order of the forward pass: their gradients come in the opposite one.
        process: this process among those that train together.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], process: Process) -> None:
        self._process = process
        self._buckets = [_Bucket(members) for members in _grouped(list(parameters)[::-1])]
        self._bucket_of = {
            parameter: bucket for bucket in self._buckets for parameter in bucket.parameters
        }
        self._is_open = False
        self._waits: list[Callable[[], object]] = []
        for parameter in self._bucket_of:
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                self._arrived
            )

    def open(self) -> None:
        """The next backward pass is the update's last: its gradients are shared as they come."""
        self._is_open = True
        for bucket in self._buckets:
            bucket.num_missing = len(bucket.parameters)

    def finish(self) -> None:
        """Share what has not been shared yet, zeros where there is no gradient, and wait."""
        self._is_open = False
        for bucket in self._buckets[len(self._waits) :]:
            self._begin(bucket)
        for wait in self._waits:
            wait()
        self._waits = []
        for bucket in self._buckets:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                parameter.grad = view

    def _arrived(self, parameter: Tensor) -> None:
        if not self._is_open:
            return
        assert isinstance(parameter, nn.Parameter)
        self._bucket_of[parameter].num_missing -= 1
        # In the order of the buckets and not of their arrival, which all processes do not share.
        for bucket in self._buckets[len(self._waits) :]:
            if bucket.num_missing:
                break
            self._begin(bucket)

    def _begin(self, bucket: "_Bucket") -> None:
        bucket.fill()
        self._waits.append(self._process.begin_sum(bucket.values))


class _Bucket:
    """Gradients that are summed together, and the memory they are summed in."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters]
        self.values = torch.zeros(
            sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device
        )
        places = pairwise(accumulate(sizes, initial=0))
        self.views = [
            self.values[first:last].view_as(parameter)
            for parameter, (first, last) in zip(parameters, places, strict=True)
        ]
        self.num_missing = len(parameters)

    def fill(self) -> None:
        """Take this process's gradients."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)


def _grouped(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    groups: list[list[nn.Parameter]] = [[]]
    size = 0
    for parameter in parameters:
        size += parameter.numel() * parameter.element_size()
        if size > _BUCKET_BYTES and groups[-1]:
            groups.append([])
            size = parameter.numel() * parameter.element_size()
        groups[-1].append(parameter)
    return groups
