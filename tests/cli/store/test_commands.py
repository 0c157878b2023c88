from tests.cli.conftest import Run


def test_each_store_command_says_what_its_exit_codes_mean(cometmq: Run) -> None:
    listed = cometmq("store", "--help").out
    for name in ("inspect", "status", "find", "verify", "rebuild", "clean"):
        assert name in listed
        ran = cometmq("store", name, "--help")
        assert ran.code == 0
        assert "Exit codes: 0 " in ran.out and "--config FILE" in ran.out and "--json" in ran.out
