import pytest
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    "arguments",
    [
        ["dev", "--store", ""],
        ["store", "status", ""],
        ["store", "clean", ""],
        ["store", "rebuild", ""],
        ["spark", "export", "", "out"],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_taken_for_the_current_directory(cometmq: Run, arguments: list[str]) -> None:
    ran = cometmq(*arguments)
    assert ran.code == 2
    assert "the path is empty; name a path, or '.' for the current directory" in ran.err
