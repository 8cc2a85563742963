"""Shoal's native ops against PyTorch, family by family: see frame.py. tests/torch_ops.py runs them."""
