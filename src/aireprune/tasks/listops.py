"""ListOps: the value of a nested expression such as [MAX 2 9 [MIN 4 7 ] 0 ], one of ten digits.

The grammar is that of Nangia and Bowman (2018) with the bounds of the Long Range Arena: a node is a digit with
probability 0.75, otherwise one of MIN, MAX, MED (median, rounded down) and SM (sum modulo 10) of 2 to `args` nodes.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task, locate, lra, pad, tokens
from aireprune.tasks.cache import cached, sections, stamp, write_arrays

WORDS = ("<pad>", "<unk>", "[MIN", "[MAX", "[MED", "[SM", "]", *"0123456789")  # 17 tokens; the place is the number
MIN, MAX, MED, SM, CLOSE, ZERO = 2, 3, 4, 5, 6, 7
LENGTH = 2048
VERSION = 1  # goes up when the same grammar generates other expressions
PARTS = {"train": 96_000, "val": 2_000, "test": 2_000}
FOLDERS = (*lra("listops-1000"), *lra("listops"))
Bounds = tuple[int, int, int, int, float]  # depth, args, shortest, longest, digit


@dataclass(frozen=True)
class Grammar:
    """Bounds of the generator. depth: of digits, so at most depth - 1 operators are nested. lengths: in tokens.

    balanced: every answer equally often. Otherwise MIN and MAX make 0 and 9 the most frequent ones, as in LRA.
    """

    count: int
    depth: int
    args: int
    shortest: int
    longest: int
    balanced: bool
    seed: int = 2018
    digit: float = 0.75

    @property
    def bounds(self) -> Bounds:
        """As the compiled functions take them."""
        return self.depth, self.args, self.shortest, self.longest, self.digit


LRA = Grammar(sum(PARTS.values()), depth=10, args=10, shortest=501, longest=1999, balanced=False)
MINI_COUNTS = (40_000, 2_000, 2_000)
MINI = Grammar(sum(MINI_COUNTS), depth=5, args=5, shortest=12, longest=96, balanced=True)


def listops() -> Task:
    """96,000 + 2,000 + 2,000 expressions of 501 to 1,999 tokens: LRA's files if they are there, else generated."""
    folder = locate(FOLDERS)
    if folder is None:
        return _task("listops", LENGTH, sections(generated(LRA), *PARTS.values()))
    return _task("listops", LENGTH, [read_tsv(folder / f"basic_{part}.tsv", LENGTH) for part in PARTS])


def listops_mini() -> Task:
    """40,000 + 2,000 + 2,000 generated expressions of 12 to 96 tokens, at most 4 operators deep, every answer 10 %."""
    return _task("listops-mini", MINI.longest, sections(generated(MINI), *MINI_COUNTS))


def _task(name: str, length: int, splits: list[Split]) -> Task:
    return Task(name, length, len(WORDS), 10, tokens, *splits, augment=reordered)


def reordered(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The arguments of every operator in random order, which changes no value: tokens (n, L) -> (n, L)."""
    varied = x.copy()
    for row in varied:
        length = int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0
        row[:length] = np.frombuffer(_reorder(row[:length].tobytes(), rng), x.dtype)
    return varied


def _reorder(expression: bytes, rng: np.random.Generator) -> bytes:
    """One expression; as it is if its operators are not all closed."""
    open_nodes: list[list[bytes]] = [[]]
    for token in expression:
        if MIN <= token <= SM:
            open_nodes.append([bytes([token])])
        elif token != CLOSE:
            open_nodes[-1].append(bytes([token]))
        elif len(open_nodes) == 1:
            return expression
        else:
            operator, *arguments = open_nodes.pop()
            order = rng.permutation(len(arguments))
            open_nodes[-1].append(operator + b"".join(arguments[place] for place in order) + bytes([CLOSE]))
    return b"".join(open_nodes[0]) if len(open_nodes) == 1 else expression


def generated(grammar: Grammar) -> Split:
    """Different expressions in random order, made once and then read from the cache."""
    return cached("listops", (VERSION, grammar, WORDS), lambda folder: _write(folder, grammar))


def _write(folder: Path, grammar: Grammar) -> None:
    split = generate(grammar)
    assert split.lengths is not None
    write_arrays(folder, x=split.x, y=split.y, lengths=split.lengths)


def generate(grammar: Grammar) -> Split:
    """`count` different expressions by the grammar's seed, the same on every machine."""
    rng = np.random.default_rng(grammar.seed)
    room = np.full(10, -(-grammar.count // 10) if grammar.balanced else grammar.count)
    x, y = np.zeros((grammar.count, grammar.longest), np.uint8), np.empty(grammar.count, np.int64)
    lengths, seen, row = np.empty(grammar.count, np.int64), set[bytes](), 0
    buffer = np.zeros(grammar.longest, np.uint8)
    while row < grammar.count:
        length, value = grow(rng, buffer, room, grammar.bounds)
        key = buffer[:length].tobytes()
        if key in seen:
            continue
        seen.add(key)
        x[row, :length], y[row], lengths[row] = buffer[:length], value, length
        room[value] -= 1
        row += 1
    order = rng.permutation(grammar.count)
    return Split(x[order], y[order], lengths[order])


@njit(cache=True)
def grow(rng: np.random.Generator, out: np.ndarray, room: np.ndarray, bounds: Bounds) -> tuple[int, int]:
    """Write the tokens of the next expression of the right length whose value has room; (length, value)."""
    _, _, shortest, _, _ = bounds
    while True:
        length, value = grow_any(rng, out, bounds)
        if length >= shortest and room[value] > 0:
            return length, value


@njit(cache=True)
def grow_any(rng: np.random.Generator, out: np.ndarray, bounds: Bounds) -> tuple[int, int]:
    """Any expression, in the order of reading; (0, 0) when it gets longer than `longest`."""
    depth, args, _, longest, digit = bounds
    operator, missing = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    values, filled = np.zeros((depth, args), np.int64), np.zeros(depth, np.int64)
    level, length = 0, 0  # level: operators that are open
    while length < longest:
        if level + 1 < depth and rng.random() >= digit:
            operator[level] = MIN + int(rng.random() * 4)
            missing[level], filled[level] = 2 + int(rng.random() * (args - 1)), 0
            out[length] = operator[level]
            length, level = length + 1, level + 1
            continue
        value = int(rng.random() * 10)
        out[length] = ZERO + value
        length += 1
        while level > 0:
            values[level - 1, filled[level - 1]] = value
            filled[level - 1] += 1
            if filled[level - 1] < missing[level - 1]:
                break
            if length == longest:
                return 0, 0
            value = apply(operator[level - 1], values[level - 1, : filled[level - 1]])
            out[length] = CLOSE
            length, level = length + 1, level - 1
        if level == 0:
            return length, value
    return 0, 0


@njit(cache=True)
def apply(operator: int, values: np.ndarray) -> int:
    """The value of one operator. Sorts `values` in place: by hand, since NumPy's sort takes seconds to compile."""
    for end in range(1, len(values)):
        place = end
        while place > 0 and values[place - 1] > values[place]:
            values[place - 1], values[place] = values[place], values[place - 1]
            place -= 1
    middle = len(values) // 2
    if operator == MIN:
        return values[0]
    if operator == MAX:
        return values[-1]
    if operator == MED:
        return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) // 2
    total = 0
    for value in values:
        total += value
    return total % 10


def read_tsv(path: Path, length: int) -> Split:
    """LRA's files: a header, then `Source<tab>Target`; parsed once and then read from the cache."""
    if not path.is_file():
        raise AireError(f"The listops task needs {path}, which is not there. Unpack the LRA release again.")
    return cached("listops-read", (stamp(path), length, WORDS), lambda folder: _write_tsv(folder, path, length))


def _write_tsv(folder: Path, path: Path, length: int) -> None:
    rows: list[tuple[bytes, int]] = []
    try:
        with path.open(encoding="utf-8") as file:
            if file.readline().split() != ["Source", "Target"]:
                raise AireError(f"{path} does not begin with the header line Source<tab>Target of the LRA release.")
            rows += [_parse(line, f"{path}, line {number}") for number, line in enumerate(file, 2)]
    except UnicodeDecodeError as error:
        raise AireError(f"{path} is not text ({error}).") from error
    x, lengths = pad([numbers for numbers, _ in rows], length)
    write_arrays(folder, x=x, y=np.array([value for _, value in rows]), lengths=lengths)


NUMBERS = {word: number for number, word in enumerate(WORDS)}


def _parse(line: str, where: str) -> tuple[bytes, int]:
    """(token numbers, value) of one line. The parentheses of the source are left out, as all loaders do."""
    source, _, target = line.rstrip("\r\n").partition("\t")
    words = source.strip('"').replace("(", " ").replace(")", " ").split()
    if not words or target not in NUMBERS or NUMBERS[target] < ZERO:
        raise AireError(
            f"{where}: expected an expression, a tab and one digit, found {line[:20]!r} ... {line[-20:]!r}."
        )
    return bytes(NUMBERS.get(word, NUMBERS["<unk>"]) for word in words), int(target)
