"""The test ops and the program generator of this folder are importable by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
