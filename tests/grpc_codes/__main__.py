"""Write the table of ``docs/reference/grpc-codes.md``: ``python -m tests.grpc_codes``."""

from tests.grpc_codes.asking import CASES
from tests.grpc_codes.page import PAGE, written

if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), CASES))
