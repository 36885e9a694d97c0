"""A machine for pickles that can only build plain values.

A pickle is a program, and the machine of Python's pickle module may call anything it names. This one knows the
instructions that build numbers, texts and containers, and calls only what is in the table it is given: any other name
ends the reading. Steps and memory are counted, so that a small file cannot keep it busy or fill the memory.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

MOST_STEPS = 4_000_000
MOST_MEMORY = 150_000_000  # bytes that the values may take, roughly
POINTER, SMALL, LIST, DICT, SET, ENTRY = 8, 40, 64, 72, 224, 104  # bytes of each, and of an entry in a dictionary
MOST_MARKS = 10_000  # open at a time; Python itself writes no more than its depth of recursion
LONGEST_INTEGER = 64  # bytes
STOP = 0x2E
U1, U2, U4, U8, I4, F8 = (struct.Struct(layout) for layout in ("<B", "<H", "<I", "<Q", "<i", ">d"))


class UnknownNameError(ValueError):
    """The pickle names something that is not in the table; the message is that name."""


@dataclass(frozen=True)
class Builder:
    """Something that a pickle may call, and about how many bytes its result takes: in all, and per item it is given."""

    build: Callable[..., Any]
    cost: int = SMALL
    per_item: int = 0


class Machine:
    """Runs one pickle in `data` (bytes, or a file mapped into memory) from `place` on; then `place` is behind it.

    `table` has the values of names, among them the `Builder`s that may be called. `persistent` gives the value of a
    reference to something outside of the pickle.
    """

    def __init__(self, data: Any, table: Mapping[str, Any], persistent: Callable[[Any], Any], place: int = 0) -> None:
        self.place = place
        self._data, self._table, self._persistent = data, table, persistent
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under each mark
        self._memo: list[Any] = []
        self._spent = 0

    def run(self) -> Any:
        """The value that the pickle builds. ValueError if it is damaged, or needs more than this machine does."""
        try:
            for _ in range(MOST_STEPS):
                code = self._data[self.place]
                self.place += 1
                if code == STOP:
                    return self._stack.pop()
                instruction = INSTRUCTIONS.get(code)
                if instruction is None:
                    raise ValueError(f"instruction {code:#04x} at byte {self.place - 1} is none of a state dict")
                instruction(self)
        except (IndexError, TypeError, KeyError, AttributeError, OverflowError, struct.error) as error:
            raise ValueError(f"a wrong instruction before byte {self.place} ({error})") from None
        raise ValueError(f"it has more than {MOST_STEPS} instructions")

    def push(self, value: Any, cost: int = SMALL) -> None:
        self.spend(cost)
        self._stack.append(value)

    def pop(self) -> Any:
        return self._stack.pop()

    def spend(self, cost: int) -> None:
        self._spent += cost
        if self._spent > MOST_MEMORY:
            raise ValueError(f"its values would take more than {MOST_MEMORY // 10**6} MB of memory")

    def take(self, count: int) -> bytes:
        """The next bytes of the pickle."""
        taken: bytes = self._data[self.place : self.place + count]
        if len(taken) != count:
            raise ValueError("it ends too early")
        self.place += count
        return taken

    def number(self, layout: struct.Struct) -> Any:
        """The next number of the pickle."""
        value = layout.unpack_from(self._data, self.place)[0]
        self.place += layout.size
        return value

    def sized(self, layout: struct.Struct) -> bytes:
        """Bytes after their count."""
        count = self.number(layout)
        self.spend(4 * count)
        return self.take(count)

    def integer(self) -> int:
        raw = self.sized(U1)
        if len(raw) > LONGEST_INTEGER:
            raise ValueError(f"a whole number of {len(raw)} bytes")
        return int.from_bytes(raw, "little", signed=True)

    def line(self) -> str:
        end = self._data.find(b"\n", self.place, self.place + 1000)
        if end < 0:
            raise ValueError("a name without an end")
        return self.take(end + 1 - self.place)[:-1].decode()

    def mark(self) -> None:
        self.spend(LIST)
        if len(self._below) == MOST_MARKS:
            raise ValueError(f"more than {MOST_MARKS} lists are begun inside of each other")
        self._below.append(self._stack)
        self._stack = []

    def marked(self) -> list[Any]:
        """Everything above the last mark."""
        items = self._stack
        self._stack = self._below.pop()
        self.spend(POINTER * len(items))
        return items

    def last(self, kind: type) -> Any:
        """The value on top of the stack, which must be of a kind."""
        value = self._stack[-1]
        if not isinstance(value, kind):
            raise ValueError(f"a {kind.__name__} was expected, not a {type(value).__name__}")
        return value

    def tuple_of(self, count: int) -> None:
        items = tuple(self._stack[-count:])
        if len(items) != count:
            raise ValueError("a tuple of too few values")
        del self._stack[-count:]
        self.push(items, LIST + POINTER * count)

    def extend(self, items: list[Any]) -> None:
        self.spend(2 * POINTER * len(items))
        self.last(list).extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.last(dict)
        self.spend(ENTRY * (len(items) // 2))
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def add_items(self, items: list[Any]) -> None:
        self.spend(ENTRY * len(items))
        self.last(set).update([checked_key(item) for item in items])

    def remember(self, index: int) -> None:
        if index > len(self._memo):
            raise ValueError("a value is remembered out of turn")
        self.spend(2 * POINTER)
        self._memo[index : index + 1] = [self._stack[-1]]

    def recall(self, index: int) -> None:
        self.push(self._memo[index], POINTER)

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a name that is no text")
        full = f"{module}.{name}".removeprefix("__builtin__.").removeprefix("builtins.")
        if full not in self._table:
            raise UnknownNameError(full)
        self.push(self._table[full])

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(arguments, tuple) or not isinstance(function, Builder):
            raise ValueError("a call of something that cannot be called")
        if function.per_item:
            self.spend(function.per_item * sum(len(value) for value in arguments if isinstance(value, Sized)))
        self.push(function.build(*arguments), function.cost)

    def build(self) -> None:
        """Attributes of an ordered dictionary; modules keep the versions of their parameters in one."""
        state, target = self.pop(), self.last(OrderedDict)
        self.spend(DICT + ENTRY * len(state))
        target.__dict__.update(checked_attributes(state, OrderedDict))

    def refer(self) -> None:
        self.push(self._persistent(self.pop()), 4 * LIST)


def checked_key(key: Any) -> Any:
    """What an entry may be found by. Others, and huge numbers, can be made to take very long to find."""
    if type(key) in (str, bytes, bool, type(None)) or (type(key) is int and abs(key) < 2**60):
        return key
    raise ValueError(f"an entry is found by a {type(key).__name__}; expected text or a number")


def checked_attributes(state: Any, kind: type) -> dict[str, Any]:
    """Attributes for an object, none of which hides what every object of its kind has."""
    if not isinstance(state, dict) or not all(isinstance(key, str) and not hasattr(kind, key) for key in state):
        raise ValueError(f"attributes that a {kind.__name__} cannot be given")
    return state


Instruction = Callable[[Machine], Any]
INSTRUCTIONS: dict[int, Instruction] = {
    0x80: lambda m: m.take(1),  # the version of the protocol
    0x95: lambda m: m.take(8),  # the length of a frame
    ord("N"): lambda m: m.push(None, POINTER),
    0x88: lambda m: m.push(True, POINTER),
    0x89: lambda m: m.push(False, POINTER),
    ord("K"): lambda m: m.push(m.number(U1), POINTER),
    ord("M"): lambda m: m.push(m.number(U2)),
    ord("J"): lambda m: m.push(m.number(I4)),
    0x8A: lambda m: m.push(m.integer()),
    ord("G"): lambda m: m.push(m.number(F8)),
    ord("U"): lambda m: m.push(m.sized(U1).decode(), 2 * SMALL),
    ord("T"): lambda m: m.push(m.sized(U4).decode(), 2 * SMALL),
    0x8C: lambda m: m.push(m.sized(U1).decode(), 2 * SMALL),
    ord("X"): lambda m: m.push(m.sized(U4).decode(), 2 * SMALL),
    0x8D: lambda m: m.push(m.sized(U8).decode(), 2 * SMALL),
    ord("C"): lambda m: m.push(m.sized(U1)),
    ord("B"): lambda m: m.push(m.sized(U4)),
    0x8E: lambda m: m.push(m.sized(U8)),
    0x96: lambda m: m.push(bytearray(m.sized(U8)), 2 * SMALL),
    ord("("): Machine.mark,
    ord("0"): Machine.pop,
    ord("1"): Machine.marked,
    ord(")"): lambda m: m.push((), POINTER),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("t"): lambda m: m.push(tuple(m.marked()), LIST),
    ord("]"): lambda m: m.push([], LIST),
    ord("a"): lambda m: m.extend([m.pop()]),
    ord("e"): lambda m: m.extend(m.marked()),
    ord("}"): lambda m: m.push({}, DICT),
    ord("s"): lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    ord("u"): lambda m: m.set_items(m.marked()),
    0x8F: lambda m: m.push(set(), SET),
    0x90: lambda m: m.add_items(m.marked()),
    ord("h"): lambda m: m.recall(m.number(U1)),
    ord("j"): lambda m: m.recall(m.number(U4)),
    ord("q"): lambda m: m.remember(m.number(U1)),
    ord("r"): lambda m: m.remember(m.number(U4)),
    0x94: lambda m: m.remember(len(m._memo)),
    ord("c"): lambda m: m.name(m.line(), m.line()),
    0x93: lambda m: m.name(*[m.pop(), m.pop()][::-1]),
    ord("R"): Machine.call,
    0x81: Machine.call,
    ord("b"): Machine.build,
    ord("Q"): Machine.refer,
}
