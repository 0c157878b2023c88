from cometmq.escaping import printable


def test_what_others_sent_plays_no_tricks_on_a_terminal() -> None:
    assert printable("plain é ü") == "plain é ü"
    assert printable("\x1b[31mred\r\n\udcff") == r"\x1b[31mred\r\n\udcff"
    assert printable("\u202egnp.exe\u2028") == r"\u202egnp.exe\u2028"
