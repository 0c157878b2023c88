from tests.cli.conftest import Run


def test_each_spark_command_says_what_its_exit_codes_mean(cometmq: Run) -> None:
    listed = cometmq("spark", "--help").out
    for name in ("rebuild", "verify", "find", "export", "archive", "report", "replay"):
        assert name in listed
        ran = cometmq("spark", name, "--help")
        assert ran.code == 0
        assert "Exit codes: 0 " in ran.out and "--master" in ran.out and "--json" in ran.out
