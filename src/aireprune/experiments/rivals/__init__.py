"""Methods that change training, or that drop states by measured energy, beside pruning after training."""
