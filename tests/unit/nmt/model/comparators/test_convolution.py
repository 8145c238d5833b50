import pytest
import torch
import torch.nn.functional as F

from nmt.model.comparators.convolution import Convolution


@pytest.mark.parametrize(("kernel_width", "dilation"), [(1, 1), (3, 1), (3, 4), (4, 1)])
def test_a_convolution_equals_that_of_torch(kernel_width: int, dilation: int) -> None:
    torch.manual_seed(0)
    layer = Convolution(5, 7, kernel_width, dilation).double()
    hidden = torch.randn(2, 9, 5, dtype=torch.float64)
    weight = layer.linear.weight.view(7, kernel_width, 5).transpose(1, 2)

    def of_torch(before: int, after: int) -> torch.Tensor:
        padded = F.pad(hidden.transpose(1, 2), (before, after))
        found = F.conv1d(padded, weight, layer.linear.bias, dilation=dilation)
        return found.transpose(1, 2)

    span = (kernel_width - 1) * dilation
    centred = layer(hidden, torch.ones(2, 9, dtype=torch.bool))
    torch.testing.assert_close(centred, of_torch(span // 2, span - span // 2))
    first, past = layer.continued(hidden[:, :2], layer.no_past(hidden))
    second, _ = layer.continued(hidden[:, 2:], past)
    torch.testing.assert_close(torch.cat((first, second), dim=1), of_torch(span, 0))
