"""Talk to a Mamba or Mamba-2 on a CPU: what the model says appears token by token.

    pip install "aireprune[hf]"
    aire prune FOLDER -o SMALL --ratio 0.5
    python examples/chat_on_cpu.py SMALL --int8

FOLDER is a Hugging Face folder with a tokenizer. An empty line ends the conversation.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from transformers import AutoTokenizer

import aireprune

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", help="a Mamba or Mamba-2 language model, pruned or not, with its tokenizer")
parser.add_argument("--int8", action="store_true", help="decode with weights in 8 bits")
parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest token")
parser.add_argument("--max-new-tokens", type=int, default=100, help="of an answer")
parser.add_argument("--seed", type=int, help="makes answers repeat themselves")
arguments = parser.parse_args()

model = aireprune.load(arguments.folder)
tokenizer = AutoTokenizer.from_pretrained(arguments.folder)


def prompt_of(messages: list[dict[str, str]]) -> str:
    """As the tokenizer's chat template says; models without one get plain lines."""
    if tokenizer.chat_template:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant:"


def say(token: torch.Tensor) -> None:
    print(tokenizer.decode(token, skip_special_tokens=True), end="", flush=True)


messages: list[dict[str, str]] = []
for line in map(str.strip, sys.stdin):
    if not line:
        break
    messages.append({"role": "user", "content": line})
    tokens = tokenizer(prompt_of(messages), return_tensors="pt").input_ids
    began = time.perf_counter()
    answer = aireprune.generate(
        model,
        tokens[0],
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
        weights="int8" if arguments.int8 else "float32",
        on_token=say,
    )
    seconds = time.perf_counter() - began
    messages.append({"role": "assistant", "content": tokenizer.decode(answer.new, skip_special_tokens=True)})
    rounding = "" if answer.logit_error is None else f", logits within {answer.logit_error:.0e} of those in 32 bits"
    print(f"\n[{len(answer.new)} tokens in {seconds:.1f} s after {answer.prompt} of prompt{rounding}]")
