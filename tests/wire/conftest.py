"""Commands of every kind, for the tests of all that carries them."""

from hypothesis import strategies as st

from cometmq.wire.codes import LanguageCode
from cometmq.wire.command import Command, SerializeType

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_ints = st.integers(-(2**31), 2**31 - 1)
_shorts = st.integers(-(2**15), 2**15 - 1)

st.register_type_strategy(
    Command,
    st.builds(
        Command,
        code=_shorts,
        opaque=_ints,
        flag=_ints,
        version=_shorts,
        language=st.sampled_from(LanguageCode),
        remark=st.none() | _texts.filter(bool),
        ext_fields=st.dictionaries(_texts, _texts, max_size=6),
        body=st.binary(max_size=50),
        serialize_type=st.sampled_from(SerializeType),
    ),
)
