"""What the library says in arguments of Python, in the flags that a person types.

The library names arguments; the command line translates them into flags: unstable='keep' is --unstable keep.
"""

from __future__ import annotations

import re

SAME = (
    "allocate",
    "augment",
    "batch",
    "bench",
    "blocks",
    "calibrate",
    "calibrate_count",
    "calibrate_tokens",
    "config",
    "count",
    "data",
    "details",
    "device",
    "dropout",
    "epochs",
    "epsilon",
    "examples",
    "family",
    "features",
    "force",
    "granularity",
    "hankel",
    "head_dim",
    "horizon",
    "inputs",
    "int8",
    "kept",
    "layer_inputs",
    "layers",
    "layout",
    "length",
    "lr",
    "mask",
    "max_drop",
    "method",
    "methods",
    "min_states",
    "module",
    "opset",
    "overwrite",
    "part",
    "plan",
    "precision",
    "ratio",
    "ratios",
    "ray",
    "recipe",
    "recover",
    "recover_count",
    "recover_steps",
    "reduce",
    "repeats",
    "report",
    "resume",
    "round_to",
    "seed",
    "seeds",
    "ssm_lr",
    "start",
    "state_axis",
    "states",
    "step",
    "target",
    "task",
    "text",
    "threads",
    "threshold",
    "to",
    "unstable",
    "weight_decay",
    "weights",
    "window",
)  # one name a line: they come from many hands
FLAGS = {name: "--" + name.replace("_", "-") for name in SAME} | {"original": "--against", "drop": "--max-drop"}

# Not inside quotes, a path or a longer name. The value is quoted, True, a number, a word in capitals or left open.
MENTION = re.compile(
    r"""(?<![\w/.='"-])(?P<name>[a-z]\w*)="""
    r"""(?:(?P<quote>['"])(?P<text>[^'"\s]*)(?P=quote)|(?P<on>True)|(?P<bare>-?(?:\d[\d.eE+-]*(?<!\.)|inf|nan)|[A-Z]+|…))?"""
    r"""(?=[\s),;:`]|\.(?:\s|$)|$)"""
)


SEVERAL = re.compile(r"(?<![\w/.='\"-])(?P<name>[a-z]\w*)=\[(?P<texts>'[^\]]*')\]")


def in_flags(message: str) -> str:
    """The message with arguments as flags; words that are not options of the command line stay as they are."""
    return MENTION.sub(_flag, SEVERAL.sub(_flags, message))


def _flags(mention: re.Match[str]) -> str:
    """A flag for every text of a list: state_axis=['B=0', 'C=0'] is --state-axis B=0 --state-axis C=0."""
    flag = FLAGS.get(mention["name"])
    texts = re.findall(r"'([^']*)'", mention["texts"])
    return mention[0] if flag is None else " ".join(f"{flag} {text}" for text in texts)


def _flag(mention: re.Match[str]) -> str:
    flag, value = FLAGS.get(mention["name"]), mention["text"] or mention["bare"]
    if flag is None or mention["text"] == "":
        return mention[0]
    return f"{flag} {value}" if value else flag
