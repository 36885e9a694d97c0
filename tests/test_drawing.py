"""What figures have in common: names at line ends, colours, and text that is only text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

from aireprune.drawing import AIRE, as_svg, colours, name_lines, new_axes, spread, styled


def test_labels_keep_their_order_and_distance():
    heights = {"a": 50.0, "b": 51.0, "c": 49.0, "d": 90.0, "e": 200.0}
    placed = spread(heights, 10, 0, 100)
    order = sorted(heights, key=lambda name: heights[name])
    assert [b - a >= 10 - 1e-9 for a, b in pairwise(placed[name] for name in order)] == [True] * 4
    assert placed["e"] == 100
    assert min(placed.values()) >= 0


def test_more_labels_than_room_still_keep_their_distance():
    placed = spread({str(i): 0.0 for i in range(8)}, 10, 0, 30)
    assert sorted(placed.values()) == [10.0 * i for i in range(8)]


def test_every_name_has_a_colour_and_aire_its_own():
    found = colours(["aire", "last", "mine", "yours", "theirs"])
    assert found["aire"] == AIRE
    assert len(set(found.values())) == 5


def test_names_are_text_and_figures_are_the_same_twice():
    def draw() -> str:
        with styled():
            axes = new_axes()
            axes.plot([0, 1], [0, 1])
            name = "$x_1$ \x1b[2J& <c>\u202e"
            name_lines(axes, {name: (1, 1)}, {name: "#123456"})
            return as_svg(axes.get_figure(root=True))

    text = draw()
    texts = [
        "".join(element.itertext()).strip() for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert r"$x_1$ \x1b[2J& <c>\u202e" in texts
    assert draw() == text
