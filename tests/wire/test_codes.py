import pytest

from cometmq.wire.codes import (
    LANGUAGES,
    VERSION,
    LanguageCode,
    RequestCode,
    ResponseCode,
    Version,
    version_name,
)


@pytest.mark.parametrize("codes", [RequestCode, ResponseCode, Version])
def test_no_number_has_two_names(codes: type[RequestCode | ResponseCode | Version]) -> None:
    assert len(codes.__members__) == len(set(codes))


def test_languages_have_the_numbers_of_the_binary_header() -> None:
    assert LANGUAGES.index(LanguageCode.JAVA) == 0
    assert LANGUAGES.index(LanguageCode.PYTHON) == 3
    assert LANGUAGES.index(LanguageCode.NODE_JS) == 13


def test_a_language_younger_than_the_table_is_some_other_one() -> None:
    assert LanguageCode("COBOL") is LanguageCode.OTHER


def test_a_version_is_named_as_people_know_it() -> None:
    assert version_name(VERSION) == "V5_3_3"
    assert version_name(480) == "480"
