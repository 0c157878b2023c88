"""Each campaign can be found by its name, and says what it does."""

import ast
from pathlib import Path

import pytest
from tests.campaigns.__main__ import CAMPAIGNS, main, subject

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("module", CAMPAIGNS.values())
def test_a_campaign_has_options_and_a_main_function_and_says_what_it_does(module: str) -> None:
    tree = ast.parse(FOLDER.joinpath(*module.split(".")).with_suffix(".py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"options", "main"} <= functions
    assert subject(module)


def test_each_module_with_these_functions_has_a_name() -> None:
    campaigns = {
        ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        for path in FOLDER.rglob("*.py")
        if "\ndef options(" in path.read_text() and path.name != "test_main.py"
    }
    assert campaigns == set(CAMPAIGNS.values())


def test_the_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CAMPAIGNS)


def test_a_name_that_there_is_not_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    refusal = capsys.readouterr().err
    assert all(name in refusal for name in CAMPAIGNS)
