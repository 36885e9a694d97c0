"""Pooling refuses lengths that are no lengths of the sequence."""

from __future__ import annotations

import pytest
import torch
from torch_checks import draw

from aireprune.models.heads import RetrievalHead, pooled


@pytest.mark.parametrize("mode", ["pool", "last"])
@pytest.mark.parametrize("lengths", [[0, 3], [2, 6]])
def test_lengths_beyond_the_sequence_are_refused(mode, lengths):
    with pytest.raises(ValueError, match="between 1 and 5"):
        pooled(draw(2, 5, 8), torch.tensor(lengths), mode)


def test_only_the_first_steps_count():
    z, lengths = draw(2, 5, 8), torch.tensor([3, 5])
    torch.testing.assert_close(pooled(z, lengths, "pool"), torch.stack([z[0, :3].mean(0), z[1].mean(0)]))
    torch.testing.assert_close(pooled(z, lengths, "last"), torch.stack([z[0, 2], z[1, 4]]))
    assert pooled(z, lengths, "tokens") is z


def test_documents_come_in_pairs():
    head = RetrievalHead(8, 2)
    assert head(draw(6, 8)).shape == (3, 2)
    with pytest.raises(ValueError, match="pairs of documents, got 5"):
        head(draw(5, 8))
