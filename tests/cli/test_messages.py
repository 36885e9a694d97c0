"""What the library says about arguments, as flags."""

from __future__ import annotations

import pytest
import typer

from aireprune.cli import app
from aireprune.cli.messages import FLAGS, in_flags


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("Give unstable='keep'.", "Give --unstable keep."),
        ('Give unstable="keep".', "Give --unstable keep."),
        ("Give inputs with calibrate=.", "Give inputs with --calibrate."),
        ("Round up with round_to=8, or not.", "Round up with --round-to 8, or not."),
        ("Name it (original=).", "Name it (--against)."),
        ("It may be replaced with overwrite=True.", "It may be replaced with --overwrite."),
        ("mask=True", "--mask"),
        ("`reduce='truncate'` needs less", "`--reduce truncate` needs less"),
        ("ratio=0.5 and epsilon=1e-8", "--ratio 0.5 and --epsilon 1e-8"),
        ("a share is ratio=…", "a share is --ratio …"),
        ("(config=FILE says otherwise)", "(--config FILE says otherwise)"),
        ("a smaller learning rate (lr=, ssm_lr=).", "a smaller learning rate (--lr, --ssm-lr)."),
        ("layout='uniform' or granularity='state'", "--layout uniform or --granularity state"),
    ],
)
def test_arguments_become_flags(said, typed):
    assert in_flags(said) == typed


@pytest.mark.parametrize(
    "message",
    [
        "Give covariances= or step_rescale=2.0.",  # not options of the command line
        "mask=False",  # no flag says that
        "There is no file runs/lr=0.1/model.",
        "There is no file seed=1.pt.",
        "There is no file /data/seed=1.",
        "The ratios 'ratio=5' are not a list.",
        "the configuration says h = 13, ratio == 2",
        "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment.",
        "min-ratio=2",
    ],
)
def test_other_words_stay(message):
    assert in_flags(message) == message


def options():
    """Every option of every command, but for those that no function of the library takes by that name."""
    command = typer.main.get_command(app)
    found, groups = set(), [command]
    while groups:
        for each in groups.pop().commands.values():
            groups += [each] if hasattr(each, "commands") else []
            found |= {flag for parameter in each.params for flag in parameter.opts if flag.startswith("--")}
    only_here = {"--help", "--out", "--json", "--top", "--dir", "--page", "--suite", "--memory"}
    return (
        found - only_here - {"--calibrated", "--dry-run", "--other-repeats", "--pairs", "--model", "--models", "--zoo"}
    )


def test_every_option_is_known_and_every_flag_exists():
    assert set(FLAGS.values()) == options()
