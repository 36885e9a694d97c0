"""A Hugging Face folder, pruned or not, in EleutherAI's lm-evaluation-harness, on the fast scans.

    pip install "aireprune[eval]"
    python examples/lm_eval_harness.py smaller/ --tasks lambada_openai --limit 100

Tasks are the harness's own (it downloads their data), or YAML files of yours in --include-path.
"""

from __future__ import annotations

import argparse
import json

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

import aireprune

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", help="a Hugging Face folder with its tokenizer, such as `aire prune` writes")
parser.add_argument("--tasks", required=True, help="names, separated by commas")
parser.add_argument("--include-path", help="a folder with tasks of your own")
parser.add_argument("--limit", type=int, help="the first so many documents of every task")
parser.add_argument("--batch", type=int, default=8)
arguments = parser.parse_args()

model = aireprune.load(arguments.folder)  # accelerated; the harness finds the tokenizer by model.name_or_path
found = simple_evaluate(
    HFLM(pretrained=model, batch_size=arguments.batch),
    tasks=arguments.tasks.split(","),
    task_manager=TaskManager(include_path=arguments.include_path),
    limit=arguments.limit,
)
print(json.dumps(found["results"], indent=1, default=str))
