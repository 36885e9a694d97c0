"""Our kernels as torch operators: what compilers, autograd and shape inference see of a numba function.

`torch.library.custom_op` says the same, at a price that short calls notice: 0.1 ms each, and two seconds for importing
torch's compiler at the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

LIBRARY = torch.library.Library("aireprune", "FRAGMENT")


class Operator:
    """`aireprune::name` for tensors on the CPU. mutates: names of the arguments that it writes to."""

    def __init__(self, name: str, function: Callable[..., Any], mutates: tuple[str, ...] = ()):
        self.name = f"aireprune::{name}"
        LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=mutates))
        LIBRARY.impl(name, function, "CPU")
        self.packet = getattr(torch.ops.aireprune, name)
        arguments = self.packet.default._schema.arguments
        self.written = tuple(place for place, argument in enumerate(arguments) if argument.name in mutates)

    def __call__(self, *arguments: Any) -> Any:
        result = self.packet(*arguments)
        if torch.compiler.is_compiling():  # which knows from the schema what is written
            return result
        for place in self.written:
            if not arguments[place].is_inference():
                torch.autograd.graph.increment_version(arguments[place])  # a graph that has saved it must notice
        return result

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What the results look like, without computing them."""
        return torch.library.register_fake(self.name, function)

    def register_kernel(self, device: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the same for tensors elsewhere ("cuda")."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            LIBRARY.impl(self.name.split("::")[1], function, device.upper())
            return function

        return register

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., Any]) -> None:
        """How gradients are computed."""
        torch.library.register_autograd(self.name, backward, setup_context=setup_context)


def operator(name: str, mutates: tuple[str, ...] = (), final: bool = False) -> Callable[[Callable[..., Any]], Operator]:
    """Decorator: the function as an operator. final: gradients of it raise an error (torch would leave them out)."""

    def made(function: Callable[..., Any]) -> Operator:
        new = Operator(name, function, mutates)
        if final:
            new.register_autograd(_refuse, setup_context=_keep_nothing)
        return new

    return made


def _keep_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    return None


def _refuse(ctx: Any, *_: Any) -> Any:
    raise RuntimeError("a backward pass of aireprune's kernels has no derivative of its own")
