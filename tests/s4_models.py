"""S4 and S4D layers with the S4 repository's tensors, networks made of them, and what they put out by definition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from helpers import Arrays
from torch.nn import functional as F


def repository(
    rng: np.random.Generator, h: int = 6, s: int = 6, n: int = 4, o: int = 1, untied: bool = False
) -> Arrays:
    return Arrays(
        {
            "k.inv_dt": rng.uniform(-3, -1, (h, n if untied else 1)),
            "k.A_real": rng.uniform(-1, 1, (s, n)),
            "k.A_imag": rng.uniform(0, 5, (s, n)),
            "k.B": rng.standard_normal((1, s, n, 2)),
            "k.C": rng.standard_normal((o, h, n, 2)),
        }
    )


def s4_layer(
    rng: np.random.Generator, rank: int, l_kernel: int, real_poles: bool, h: int = 4, s: int = 2, n: int = 3
) -> Arrays:
    arrays = repository(rng, h, s, n)
    arrays["k.P"] = (3.0 if real_poles else 0.5) * rng.standard_normal((rank, s, n, 2))
    arrays["k.A_imag"] = 0.1 * arrays["k.A_imag"] if real_poles else arrays["k.A_imag"] + 2
    arrays["k.l_kernel"] = np.array(l_kernel)
    return arrays


def s4_kernel(arrays: Mapping[str, np.ndarray], length: int) -> np.ndarray:
    """The dense definition: A = diag(a) - P P* over both halves, bilinear, C = C~ (I - A^L)^{-1}."""
    both = lambda z: np.concatenate([z, z.conj()], -1)  # noqa: E731
    h, s = len(arrays["k.inv_dt"]), len(arrays["k.A_real"])
    a = both(-np.exp(arrays["k.A_real"]) - 1j * arrays["k.A_imag"])
    p, b, c = (both(arrays[f"k.{role}"] @ [1, 1j]) for role in "PBC")
    out = np.zeros((len(c), h, length))
    for channel in range(h):
        t, dt = channel % s, np.exp(arrays["k.inv_dt"][channel, 0])
        full = np.diag(a[t]) - sum(np.outer(row[t], row[t].conj()) for row in p)
        back = np.linalg.inv(np.eye(len(full)) - dt / 2 * full)
        lam, x = back @ (np.eye(len(full)) + dt / 2 * full), dt * back @ b[0, t]
        l_kernel = int(arrays["k.l_kernel"])
        decode = (
            np.linalg.inv(np.eye(len(full)) - np.linalg.matrix_power(lam, l_kernel)) if l_kernel else np.eye(len(full))
        )
        for step in range(length):
            out[:, channel, step] = (c[:, channel] @ decode @ x).real
            x = lam @ x
    return out


def hippo(n: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, P, B), each (n/2,): HiPPO-LegS as diagonal plus low rank, what S4 starts from. It has no usable eigenbasis."""
    from aireprune.models.s5 import hippo_normal

    lam, v = hippo_normal(n)
    rows = v.conj().T[: n // 2]
    order = np.arange(n)
    return lam[: n // 2], rows @ np.sqrt(order + 0.5), rows @ np.sqrt(2 * order + 1.0)


def hippo_layer(rng: np.random.Generator, h: int = 3, s: int = 3, n: int = 64, l_kernel: int = 0) -> Arrays:
    a, p, b = (np.tile(part, (s, 1)) for part in hippo(n))
    return Arrays(
        {
            "k.inv_dt": rng.uniform(-5, -3, (h, 1)),
            "k.A_real": np.log(-a.real),
            "k.A_imag": -a.imag,
            "k.B": pairs(b)[None],
            "k.C": rng.standard_normal((1, h, n // 2, 2)),
            "k.P": pairs(p)[None],
            "k.l_kernel": np.array(l_kernel),
        }
    )


def pairs(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1)


NETWORKS = ("version 4", "version 3", "s4d.py")
KERNELS = {"version 4": "layer.kernel", "version 3": "kernel.kernel", "s4d.py": "kernel"}


def older(kernel: Mapping[str, np.ndarray]) -> Arrays:
    """The tensors of a kernel, by role, as versions 2 and 3 of the S4 repository name and shape them."""
    diagonal = "P" not in kernel
    names = {"A_real": "inv_A_real" if diagonal else "inv_w_real", "A_imag": "A_imag" if diagonal else "w_imag"}
    out = Arrays()
    for role, values in kernel.items():
        if role == "inv_dt":
            out["log_dt"] = values[:, 0]
        elif role == "l_kernel":
            out["L"] = values
        elif role == "B" and diagonal:
            out["B"] = values[0]
        else:
            out[names.get(role, role)] = -values if role == "A_imag" else values
    return out


def network(kernels: list[Mapping[str, np.ndarray]], version: str, prefix: str = "", seed: int = 0) -> Arrays:
    """A network like the S4 repository's example.py around kernels, by role: 2 inputs, 3 outputs, single precision."""
    rng = np.random.default_rng(seed)
    h = kernels[0]["C"].shape[-3]
    out = Arrays()

    def dense(name: str, *shape: int) -> None:
        out[f"{name}.weight"] = rng.standard_normal(shape) / np.sqrt(shape[1])
        out[f"{name}.bias"] = 0.1 * rng.standard_normal(shape[0])

    dense("encoder", h, 2)
    dense("decoder", 3, h)
    for number, kernel in enumerate(kernels):
        block = f"s4_layers.{number}"
        stored = older(kernel) if version == "version 3" else kernel
        out |= {f"{block}.{KERNELS[version]}.{role}": values for role, values in stored.items()}
        d = rng.standard_normal(h)
        out[f"{block}.layer.D" if version == "version 4" else f"{block}.D"] = d if version == "s4d.py" else d[None]
        dense(f"{block}.output_linear.0", 2 * h, h, *((1,) if version != "version 4" else ()))
        out[f"norms.{number}.weight"] = 1 + 0.1 * rng.standard_normal(h)
        out[f"norms.{number}.bias"] = 0.1 * rng.standard_normal(h)
    return Arrays(
        {prefix + name: values.astype(np.float32 if values.dtype.kind == "f" else int) for name, values in out.items()}
    )


def run_network(arrays: Mapping[str, np.ndarray], x: np.ndarray, prefix: str, prenorm: bool = False) -> np.ndarray:
    """Logits of a network whose kernels are those of the S4 repository, from the definition: x (b, L, 2) -> (b, 3)."""
    own = {name.removeprefix(prefix): torch.tensor(values).double() for name, values in arrays.items()}
    z = F.linear(torch.tensor(x).double(), own["encoder.weight"], own["encoder.bias"])
    number = 0
    while f"norms.{number}.weight" in own:
        block = f"s4_layers.{number}."
        mine = {name.removeprefix(block): values for name, values in own.items() if name.startswith(block)}
        norm = (z.shape[-1:], own[f"norms.{number}.weight"], own[f"norms.{number}.bias"])
        u = F.layer_norm(z, *norm) if prenorm else z
        k = torch.tensor(s4_kernel(_under_k(mine), x.shape[1])[0])  # (h, L)
        y = torch.fft.irfft(torch.fft.rfft(u, 2 * len(k[0]), 1) * torch.fft.rfft(k.T, 2 * len(k[0]), 0), dim=1)
        y = F.gelu(y[:, : x.shape[1]] + u * next(mine[name] for name in mine if name.endswith("D")).reshape(-1))
        weight = mine["output_linear.0.weight"].reshape(2 * z.shape[-1], -1)
        z = z + F.glu(F.linear(y, weight, mine["output_linear.0.bias"]), -1)
        z = z if prenorm else F.layer_norm(z, *norm)
        number += 1
    return F.linear(z.mean(1), own["decoder.weight"], own["decoder.bias"]).numpy()


def _under_k(block: Mapping[str, torch.Tensor]) -> Arrays:
    """The kernel of a block, version 3 or 4, as `s4_kernel` takes it."""
    kernel = {name.rpartition(".")[2]: values.numpy() for name, values in block.items() if "kernel." in name}
    if "log_dt" in kernel:
        kernel |= {"A_real": kernel["inv_w_real"], "A_imag": -kernel["w_imag"], "inv_dt": kernel["log_dt"][:, None]}
        kernel["l_kernel"] = kernel["L"]
    return Arrays({f"k.{role}": values for role, values in kernel.items()})
