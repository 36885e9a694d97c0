"""Our models as a stack of layers, opened at the two places calibration needs: what a layer reads, what it puts out.

z (b, L, h) is the activation between blocks. Block i reads u = read(i, z), its layer puts out y = put_out(i, u), and
join(i, z, y) is the z of the next block. For S5 and S4D, y is the output of the state space layer alone; for Mamba it
is the output of out_proj.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.errors import AireError
from aireprune.models.mamba import MambaLayer, MambaModel
from aireprune.models.s4d import S4DLayer, S4DModel
from aireprune.models.s5 import BatchNorm, S5Block, S5Model


class Stack(Protocol):
    depth: int
    width: int
    prenorm: bool

    def encode(self, x: Tensor) -> Tensor: ...

    def read(self, i: int, z: Tensor) -> Tensor: ...

    def put_out(self, i: int, u: Tensor) -> Tensor: ...

    def join(self, i: int, z: Tensor, y: Tensor) -> Tensor: ...

    def batch_norm(self, i: int) -> BatchNorm | None:
        """The batch norm of block i, if it has one."""
        ...

    def before_norm(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        """What the norm of a post-norm block reads."""
        ...


class S5Stack:
    def __init__(self, model: S5Model):
        self.model, self.depth, self.width = model, len(model.layers), model.config.h
        self.prenorm = model.config.prenorm

    def block(self, i: int) -> S5Block:
        block = self.model.layers[i]
        assert isinstance(block, S5Block)
        return block

    def encode(self, x: Tensor) -> Tensor:
        return self.model.encode(x)

    def read(self, i: int, z: Tensor) -> Tensor:
        u: Tensor = self.block(i).norm(z) if self.prenorm else z
        return u

    def put_out(self, i: int, u: Tensor) -> Tensor:
        y: Tensor = self.block(i).seq(u)
        return y

    def join(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.before_norm(i, z, y)
        return out if self.prenorm else self.block(i).norm(out)

    def batch_norm(self, i: int) -> BatchNorm | None:
        norm = self.block(i).norm
        return norm if isinstance(norm, BatchNorm) else None

    def before_norm(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        return z + self.block(i).gate(y)


class S4DStack:
    def __init__(self, model: S4DModel):
        self.model, self.depth, self.width = model, len(model.s4_layers), model.config.h
        self.prenorm = model.config.prenorm

    def layer(self, i: int) -> S4DLayer:
        layer = self.model.s4_layers[i]
        assert isinstance(layer, S4DLayer)
        return layer

    def encode(self, x: Tensor) -> Tensor:
        return self.model.encode(x)

    def read(self, i: int, z: Tensor) -> Tensor:
        u: Tensor = self.model.norms[i](z) if self.prenorm else z
        return u

    def put_out(self, i: int, u: Tensor) -> Tensor:
        return self.layer(i).ssm(u)

    def join(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.before_norm(i, z, y)
        return out if self.prenorm else self.model.norms[i](out)

    def batch_norm(self, i: int) -> BatchNorm | None:
        return None

    def before_norm(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        return z + F.glu(self.mix(i, F.gelu(y)), dim=-1)

    def mixing(self, i: int) -> nn.Conv1d:
        """The dense layer that mixes the channels, a convolution of width 1."""
        mixing = self.layer(i).output_linear.get_submodule("0")
        assert isinstance(mixing, nn.Conv1d)
        return mixing

    def mix(self, i: int, g: Tensor) -> Tensor:
        return F.linear(g, self.mixing(i).weight[:, :, 0], self.mixing(i).bias)


class MambaStack:
    def __init__(self, model: MambaModel):
        self.model, self.depth, self.width = model, len(model.layers), model.config.d_model
        self.prenorm = True

    def layer(self, i: int) -> MambaLayer:
        layer = self.model.layers[i]
        assert isinstance(layer, MambaLayer)
        return layer

    def encode(self, x: Tensor) -> Tensor:
        return self.model.encode(x)

    def read(self, i: int, z: Tensor) -> Tensor:
        u: Tensor = self.model.norms[i](z)
        return u

    def put_out(self, i: int, u: Tensor) -> Tensor:
        y: Tensor = self.layer(i)(u)
        return y

    def join(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        return z + y if self.model.config.residual else y

    def batch_norm(self, i: int) -> BatchNorm | None:
        return None

    def before_norm(self, i: int, z: Tensor, y: Tensor) -> Tensor:
        return self.join(i, z, y)


def open_stack(model: nn.Module) -> S5Stack | S4DStack | MambaStack:
    for kind, stack in ((S5Model, S5Stack), (S4DModel, S4DStack), (MambaModel, MambaStack)):
        if isinstance(model, kind):
            opened: S5Stack | S4DStack | MambaStack = stack(model)  # type: ignore[arg-type]
            return opened
    raise AireError(
        f"Calibration walks through aireprune's own models (S5, S4D, Mamba), and a {type(model).__name__} is not one "
        "of them."
    )


def parameters_match(full: nn.Module, reduced: nn.Module) -> None:
    """Raise unless the two are the same kind of model with as many layers of the same width."""
    a, b = open_stack(full), open_stack(reduced)
    if type(a) is not type(b) or a.depth != b.depth or a.width != b.width:
        raise AireError(
            f"A {type(reduced).__name__} with {b.depth} layers of width {b.width} is not a reduction of a "
            f"{type(full).__name__} with {a.depth} layers of width {a.width}."
        )
