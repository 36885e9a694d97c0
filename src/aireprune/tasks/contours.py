"""A generator of Pathfinder pictures of any size: two discs, two long dashed contours, short distractors.

Label 1: the discs are the two ends of one long contour. Label 0: they are an end of each. Both kinds of picture hold
the same contours, and, for every length of contour, the discs' distance from each other and from the middle of the
picture is distributed alike (a picture is rejected as often as its distances are too frequent for its label). What
tells the labels apart is which end a contour leads to.

Points are (row, column). Contours go in steps of one pixel; their direction is a whole number of 1/256 turns that
looks up a rounded table, so that no machine's sine can change what is drawn.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

VERSION = 1  # goes up when the same style draws other pictures
TURN = 256
COMPASS = np.round(
    np.stack([np.sin(np.arange(TURN) * 2 * np.pi / TURN), np.cos(np.arange(TURN) * 2 * np.pi / TURN)]), 6
)
ATTEMPTS = 40  # to place one contour before the picture is begun anew
BEGINNINGS = 20_000  # of one picture, before the style counts as impossible
PILOT = 12_000  # pictures that estimate how the distances are distributed
BINS, RINGS = 48, 6  # of the discs' distance, and of their midpoint's distance from the middle


@dataclass(frozen=True)
class Style:
    """How the pictures look; lengths in pixels, bends in 1/256 turns per pixel, brightness 0 to 255.

    dashes: the least and the most of a long contour. distractors, short: how many short contours, and their dashes.
    dash, gap: pixels drawn and left out. apart: the least distance between contours. bend: the sharpest turn; drift:
    how fast it changes. width: of a line; disc: the radius.
    """

    size: int
    dashes: tuple[int, int]
    distractors: int
    short: int
    dash: int
    gap: int
    apart: float
    bend: int
    drift: int
    width: float
    disc: float
    brightness: int

    def numbers(self) -> tuple[int, int, int, int, int, int, float, int, int, float]:
        """Where contours may go, as the compiled functions take it."""
        place = (self.apart, self.bend, self.drift, self.disc)
        return (self.size, *self.dashes, self.short, self.dash, self.gap, *place)

    def room(self) -> tuple[np.ndarray, np.ndarray]:
        """Room for the points of all contours of a picture, and for where each contour begins."""
        period = self.dash + self.gap
        points = (2 * self.dashes[1] + self.distractors * self.short) * period + self.distractors + 2
        return np.empty((points, 2)), np.zeros(self.distractors + 3, np.int64)


def draw(style: Style, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` pictures (count, size, size) uint8 and labels 1, 0, 1, 0, ..., the same on every machine."""
    pictures, labels = np.zeros((count, style.size, style.size), np.uint8), 1 - np.arange(count) % 2
    draw_into(pictures, style, acceptance(style, seed), np.random.default_rng((seed, 1)))
    return pictures, labels.astype(np.int64)


def draw_into(pictures: np.ndarray, style: Style, keep: np.ndarray, rng: np.random.Generator) -> None:
    """Fill empty pictures (n, size, size), labels 1, 0, 1, 0, ..."""
    look = (style.dash, style.gap, float(style.width), style.disc, style.brightness)
    _draw_all(rng, pictures, style.room(), keep, style.numbers(), look)


def acceptance(style: Style, seed: int) -> np.ndarray:
    """(2, lengths, BINS, RINGS): the probability to keep a picture by label and distances, from a pilot run."""
    counts = np.zeros((2, style.dashes[1] - style.dashes[0] + 1, BINS, RINGS), np.int64)
    rng = np.random.default_rng((seed, 0))
    _count(rng, counts, PILOT, style.room(), style.numbers())
    keep: np.ndarray = counts.min(0) / np.maximum(counts, 1)
    if not keep.any():
        raise ValueError(f"no distance between discs occurs with both labels in pictures of {style}")
    return keep


@njit(cache=True)
def _contour(rng, nodes, first, last, numbers):  # type: ignore[no-untyped-def]
    """Walk from a random point through nodes[first:last]; False when it leaves the picture or comes near another."""
    size, _, _, _, _, _, apart, bend, drift, border = numbers
    heading, turn = int(rng.random() * TURN), int(rng.random() * (2 * bend + 1)) - bend
    row, column = border + rng.random() * (size - 1 - 2 * border), border + rng.random() * (size - 1 - 2 * border)
    reach = int(apart * 1.6) + 2  # neighbours on the contour itself that may be near
    for node in range(first, last):
        if min(row, column) < border or max(row, column) > size - 1 - border:
            return False
        for other in range(node):
            near = (nodes[other, 0] - row) ** 2 + (nodes[other, 1] - column) ** 2 < apart * apart
            if near and (other < first or other < node - reach):
                return False
        nodes[node, 0], nodes[node, 1] = row, column
        turn = min(bend, max(-bend, turn + int(rng.random() * (2 * drift + 1)) - drift))
        heading = (heading + turn) % TURN
        row, column = row + COMPASS[0, heading], column + COMPASS[1, heading]
    return True


@njit(cache=True)
def _place(rng, nodes, bounds, numbers):  # type: ignore[no-untyped-def]
    """Place all contours of one picture: contour k has nodes bounds[k] to bounds[k + 1], and begins and ends in a dash."""
    _, least, most, short, dash, gap, _, _, _, _ = numbers
    long = least + int(rng.random() * (most - least + 1))
    contour, begun = 0, 0
    while contour < len(bounds) - 1:
        dashes = long if contour < 2 else short
        bounds[contour + 1] = bounds[contour] + dashes * (dash + gap) - gap + 1
        placed = False
        for _ in range(ATTEMPTS):
            if _contour(rng, nodes, bounds[contour], bounds[contour + 1], numbers):
                placed = True
                break
        contour = contour + 1 if placed else 0
        begun += 1 - placed
        if begun > BEGINNINGS:
            raise ValueError("so many contours of such a length do not fit into the picture")


@njit(cache=True)
def _discs(rng, nodes, bounds, label):  # type: ignore[no-untyped-def]
    """The two nodes that get discs: label 1 the ends of one long contour, label 0 an end of each."""
    if label == 1:
        which = int(rng.random() * 2)
        return bounds[which], bounds[which + 1] - 1
    first = bounds[0] if rng.random() < 0.5 else bounds[1] - 1
    second = bounds[1] if rng.random() < 0.5 else bounds[2] - 1
    return first, second


@njit(cache=True)
def _bins(nodes, bounds, a, b, numbers):  # type: ignore[no-untyped-def]
    """The bins of the contours' length, the discs' distance and their midpoint's distance from the middle."""
    size, least, _, _, dash, gap, _, _, _, _ = numbers
    dashes = (bounds[1] - 1 + gap) // (dash + gap)
    apart = np.sqrt((nodes[a, 0] - nodes[b, 0]) ** 2 + (nodes[a, 1] - nodes[b, 1]) ** 2)
    row, column = (nodes[a, 0] + nodes[b, 0] - size + 1) / 2, (nodes[a, 1] + nodes[b, 1] - size + 1) / 2
    most = np.sqrt(2.0) * size
    ring = min(RINGS - 1, int(np.sqrt(row * row + column * column) / (size / 2) * RINGS))
    return dashes - least, int(apart / most * BINS), ring


@njit(cache=True)
def _count(rng, counts, pictures, room, numbers):  # type: ignore[no-untyped-def]
    nodes, bounds = room
    for _ in range(pictures):
        _place(rng, nodes, bounds, numbers)
        for label in range(2):
            a, b = _discs(rng, nodes, bounds, label)
            length, place, ring = _bins(nodes, bounds, a, b, numbers)
            counts[label, length, place, ring] += 1


@njit(cache=True)
def _draw_all(rng, pictures, room, keep, numbers, look):  # type: ignore[no-untyped-def]
    nodes, bounds = room
    dash, gap, width, disc, brightness = look
    for index in range(len(pictures)):
        label = 1 - index % 2
        while True:
            _place(rng, nodes, bounds, numbers)
            a, b = _discs(rng, nodes, bounds, label)
            length, place, ring = _bins(nodes, bounds, a, b, numbers)
            if rng.random() < keep[label, length, place, ring]:
                break
        picture = pictures[index]
        for contour in range(len(bounds) - 1):
            for node in range(bounds[contour], bounds[contour + 1] - 1):
                if (node - bounds[contour]) % (dash + gap) < dash:
                    _segment(picture, nodes[node], nodes[node + 1], width, brightness)
        _segment(picture, nodes[a], nodes[a], 2 * disc, 255)
        _segment(picture, nodes[b], nodes[b], 2 * disc, 255)


@njit(cache=True)
def _segment(picture, a, b, width, brightness):  # type: ignore[no-untyped-def]
    """Brighten the pixels within width / 2 of the line from a to b, with soft edges. a = b: a disc."""
    size, half = len(picture), width / 2
    top, bottom = min(a[0], b[0]) - half - 1, max(a[0], b[0]) + half + 1
    left, right = min(a[1], b[1]) - half - 1, max(a[1], b[1]) + half + 1
    drow, dcolumn = b[0] - a[0], b[1] - a[1]
    square = drow * drow + dcolumn * dcolumn
    for row in range(max(0, int(top)), min(size, int(bottom) + 2)):
        for column in range(max(0, int(left)), min(size, int(right) + 2)):
            along = 0.0
            if square > 0:
                along = min(1.0, max(0.0, ((row - a[0]) * drow + (column - a[1]) * dcolumn) / square))
            away = np.sqrt((row - a[0] - along * drow) ** 2 + (column - a[1] - along * dcolumn) ** 2)
            light = int(brightness * min(1.0, max(0.0, half + 0.5 - away)))
            picture[row, column] = max(picture[row, column], light)
