import sys
from pathlib import Path

import numba

sys.path.insert(0, str(Path(__file__).parent))
numba.get_num_threads()  # starts numba's threads, which changes torch's number of them and so the rounding of its sums
