"""Language models that go on with a text, token by token: `aireprune.generate`."""
