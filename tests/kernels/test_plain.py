"""Of the plain operations alone; what both kinds do is tested where the compiled ones are."""

import subprocess
import sys


def test_the_plain_operations_need_no_numba() -> None:
    program = "import sys; from cometmq import kernels; kernels.loading.ops; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_plain_operations_are_there_at_once() -> None:
    program = (
        "from cometmq import kernels; from cometmq.kernels import plain; assert kernels.loading.ops is plain"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
