"""A token is its one-hot vector."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from aireprune.models.encoder import encoded


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_tokens_are_one_hot_vectors(dtype):
    torch.manual_seed(0)
    encoder, tokens = nn.Linear(7, 5), torch.arange(12).reshape(2, 6) % 7
    one_hot = torch.nn.functional.one_hot(tokens, 7).float()
    torch.testing.assert_close(encoded(encoder, tokens.to(dtype)), encoded(encoder, one_hot))
    assert encoded(encoder, one_hot).shape == (2, 6, 5)
