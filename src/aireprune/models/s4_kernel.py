"""The S4 repository's own kernel for our S4D model: poles and B in S copies, any discretisation and transforms.

    inv_dt (H, 1) or (H, N)    A_real, A_imag (S, N)    B (1, S, N, 2)    C (1, H, N, 2)    P (r, S, N, 2), l_kernel ()
    A = -f(A_real) - i g(A_imag); channel h uses copy h mod S; y = 2 Re(C x)

P, which only S4 has, is zero: files with another one are made diagonal when they are opened (`aireprune.families.s4`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.arrays import Shape
from aireprune.errors import AireError
from aireprune.families.s4d_parameters import RELU_FLOOR
from aireprune.models.discretize import discretize
from aireprune.models.s4d_config import S4DConfig

TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "exp": torch.exp,
    "relu": lambda x: F.relu(x) + RELU_FLOOR,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
}
BUFFERS = ("P", "l_kernel")


@dataclass(frozen=True)
class S4Config(S4DConfig):
    """Configuration of an S4D classifier with such kernels, under the names and with the defaults of the S4 repository."""

    disc: str = "zoh"
    dt_transform: str = "exp"
    real_transform: str = "exp"
    imag_transform: str = "none"
    dt_fast: bool = False
    bandlimit: float | None = None


class S4Kernel(nn.Module):
    """The parameters of a layer's modes. shapes: of its tensors, by name."""

    A_real: Tensor
    A_imag: Tensor
    B: Tensor
    C: Tensor
    inv_dt: Tensor

    def __init__(self, config: S4Config, shapes: Mapping[str, Shape]):
        super().__init__()
        if "A_imag" not in shapes or shapes["C"][0] != 1:
            raise AireError("The S4D model here takes kernels with complex poles and one readout per channel.")
        self.config = config
        for name, shape in shapes.items():
            if name in BUFFERS:
                self.register_buffer(name, torch.zeros(shape, dtype=torch.float32 if shape else torch.int64))
            else:
                self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def discrete(self) -> tuple[Tensor, Tensor]:
        """lam and w = 2 C B factor, (h, N) complex128: K_l = Re sum_j w_j lam_j^l."""
        config = self.config
        real = TRANSFORMS[config.real_transform](self.A_real.double())
        imag = TRANSFORMS[config.imag_transform](self.A_imag.double())
        repeats = self.C.shape[1] // max(len(real), 1)
        a = torch.complex(-real, -imag).repeat(repeats, 1)
        inverse = self.inv_dt.double()
        step = TRANSFORMS[config.dt_transform](torch.sinh(inverse) if config.dt_fast else inverse)
        lam, factor = discretize(a, step, "bilinear" if "P" in self._buffers else config.disc)
        c, b = (torch.view_as_complex(values.double().contiguous())[0] for values in (self.C, self.B))
        if config.bandlimit is not None:
            c = c * (step * a.imag.abs() / (2 * torch.pi) < config.bandlimit / 2)
        length = int(self._buffers.get("l_kernel") or 0)
        if length:  # C is stored tuned to kernels of this length
            c = c / (1 - torch.exp(length * torch.log(lam)))
        return lam, 2 * c * b.repeat(repeats, 1) * factor
