"""What the configurations of our models have in common: they become JSON and come back, and take new state counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from aireprune.errors import AireError


@dataclass(frozen=True)
class ModelConfig:
    """Base of frozen dataclasses that have the fields `layers` and `states`: the state counts per layer, or None."""

    needed: ClassVar[tuple[str, ...]] = ()  # fields without which there is no model
    model: ClassVar[str] = ""  # its name in messages
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # fields that take one of these values

    def __post_init__(self) -> None:
        for key, allowed in self.choices.items():
            if getattr(self, key) not in allowed:
                raise AireError(
                    f"{self.model} configuration: {key} is {getattr(self, key)!r}, expected one of {', '.join(allowed)}."
                )
        states, layers = (getattr(self, key) for key in ("states", "layers"))
        if states is not None and len(states) != layers:
            raise AireError(f"{self.model} configuration: states lists {len(states)} layers, but layers is {layers}.")

    def with_states(self, states: tuple[int, ...]) -> Self:
        return replace(self, states=tuple(int(s) for s in states))  # type: ignore[call-arg]

    def to_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "configuration") -> Self:
        """Build from a mapping; keys that the model does not know (seed, name, …) are ignored, missing ones are named."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        missing = [key for key in cls.needed if key not in known]
        if missing:
            raise AireError(f"{where}: the {cls.model} configuration has no {', '.join(missing)}.")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in known.items()})
