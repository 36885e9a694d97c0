"""NumPy archives (.npz): named arrays."""
