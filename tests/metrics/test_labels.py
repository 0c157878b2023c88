import pytest

from cometmq.errors import SettingsError
from cometmq.metrics.labels import labels_of


def test_labels_are_pairs_between_commas() -> None:
    assert labels_of("") == {}
    assert labels_of("zone:a, rack:r:1") == {"zone": "a", "rack": "r:1"}


@pytest.mark.parametrize("text", ["zone", "1:a", "a b:c", "cluster:x", "__name__:x", ":x"])
def test_other_text_is_refused_with_the_form_that_is_right(text: str) -> None:
    with pytest.raises(SettingsError, match="name:value,name:value"):
        labels_of(text)
