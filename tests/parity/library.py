"""Shoal's library for tests that compare it with PyTorch: import this before torch and shoal_ctypes. It skips the test
(exit 77) where one of the two cannot be loaded."""
import os
import sys
from pathlib import Path

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed")
    sys.exit(77)
if os.environ.get("SHOAL_SANITIZE"):
    print("skipped: a sanitizer's library does not load into a plain Python")
    sys.exit(77)
SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent.parent))
BUILD = Path(os.environ.get("SHOAL_BUILD_DIR", SOURCE / "build/release"))
os.environ.setdefault("SHOAL_LIBRARY", str(BUILD / "libshoal.so"))
sys.path.insert(0, str(SOURCE / "python"))
