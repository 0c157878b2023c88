"""Where kernels write what they find in a request's header.

``places`` is int64[PLACES_SIZE]: the positions where each field's value begins and ends, then the header's
code, flag and opaque number; NOT_A_NUMBER stands for what is missing.
"""

from typing import Final

FIELD_COUNT: Final = 14
"""The most fields that a kernel reads of one header."""

# The positions in ``places`` of a header's own numbers.
CODE: Final = 2 * FIELD_COUNT
FLAG: Final = CODE + 1
OPAQUE: Final = CODE + 2
PLACES_SIZE: Final = CODE + 3

NOT_A_NUMBER: Final = -(2**63)
"""What stands for a missing number; it has more digits than kernels read."""
