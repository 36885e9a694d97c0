"""Unlabelled colour images for the public S4D of sequential CIFAR-10: only 512 training images are at hand in colour.

    AIRE_DATA=../shared/data python tools/coloured_inputs.py inputs.npy --count 8192

The 512 come first. The others have the brightness of a grey training image and the colours of one of the 512. Written are
inputs as the model takes them, (n, 1024, 3).
"""

from __future__ import annotations

import argparse

import numpy as np

from aireprune.folders import data_folder

MEAN, SPREAD = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2023, 0.1994, 0.2010])
LUMA = np.array([0.299, 0.587, 0.114])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=8192)
    args = parser.parse_args()
    folder, rng = data_folder(), np.random.default_rng(0)
    colour = np.load(folder / "cifar10_rgb_train512.npz")["x"].reshape(-1, 1024, 3) / 255
    grey = np.load(folder / "cifar10_gray_train.npz")["x"].reshape(-1, 1024) / 255
    brightness = grey[rng.choice(len(grey), args.count - len(colour), replace=False)]
    donors = colour[rng.integers(len(colour), size=len(brightness))]
    tinted = np.clip(donors - (donors @ LUMA)[..., None] + brightness[..., None], 0, 1)
    np.save(args.out, ((np.concatenate([colour, tinted]) - MEAN) / SPREAD).astype(np.float32))


if __name__ == "__main__":
    main()
