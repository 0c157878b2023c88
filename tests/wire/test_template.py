from hypothesis import given
from hypothesis import strategies as st

from cometmq.wire.frame import Command, SerializeType, encode, response, with_prefix
from cometmq.wire.template import EmptyResponses, NumbersTemplate, ResponseTemplate

NAMES = ("msgId", "queueId", "transactionId")
CONSTANTS = {"MSG_REGION": 'a "region" of 100%', "TRACE_ON": "true"}
TEMPLATE = ResponseTemplate(NAMES, CONSTANTS)


@given(
    serialize_type=st.sampled_from(SerializeType),
    opaque=st.integers(-(2**31), 2**31 - 1),
    values=st.tuples(
        *[st.from_regex(r"\A[0-9A-F,]+\Z")] * 2, st.text(st.characters(exclude_categories=["Cs"]))
    ),
)
def test_an_answer_from_the_template_is_the_frame_that_encode_makes(
    serialize_type: SerializeType, opaque: int, values: tuple[str, ...]
) -> None:
    request = Command(310, opaque, serialize_type=serialize_type)
    fields = dict(zip(NAMES, values, strict=True)) | CONSTANTS
    assert TEMPLATE.encode(request, values) == encode(response(request, ext_fields=fields))


@given(
    serialize_type=st.sampled_from(SerializeType),
    opaque=st.integers(-(2**31), 2**31 - 1),
    remark=st.sampled_from(("FOUND", "100 % 1\n", None)),
    body=st.binary(max_size=20),
    last=st.sampled_from(("7", "é")),
)
def test_an_answer_from_a_template_with_a_remark_goes_on_with_its_body(
    serialize_type: SerializeType, opaque: int, remark: str | None, body: bytes, last: str
) -> None:
    request, values = Command(200050, opaque, serialize_type=serialize_type), ("0 1 2;0 2 3,4", last)
    frame = ResponseTemplate(NAMES[:2], CONSTANTS, remark).encode(request, values, len(body)) + body
    fields = dict(zip(NAMES, values, strict=False)) | CONSTANTS
    assert frame == encode(response(request, remark=remark, ext_fields=fields, body=body))


def test_a_field_name_is_no_placeholder() -> None:
    template = ResponseTemplate(("%s",), {})
    request = Command(10)
    assert template.encode(request, ("1",)) == encode(response(request, ext_fields={"%s": "1"}))


@given(
    serialize_type=st.sampled_from(SerializeType),
    opaque=st.integers(-(2**31), 2**31 - 1),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=len(NAMES)).map(tuple),
    body=st.binary(max_size=20),
    remark=st.sampled_from(("FOUND", "", "100 % 1\n", None)),
)
def test_an_answer_of_numbers_is_the_frame_that_encode_makes(
    serialize_type: SerializeType, opaque: int, numbers: tuple[int, ...], body: bytes, remark: str | None
) -> None:
    request, names = Command(11, opaque, serialize_type=serialize_type), NAMES[: len(numbers)]
    fields = dict(zip(names, map(str, numbers), strict=True))
    frame = NumbersTemplate(remark, names).encode(request, numbers, len(body)) + body
    assert frame == encode(response(request, remark=remark, ext_fields=fields, body=body))
    before, behind, binary_before, binary_behind = NumbersTemplate(remark, names).around(numbers)
    if serialize_type is SerializeType.JSON:
        header = before + b"%d" % opaque + behind
    else:
        header = binary_before + opaque.to_bytes(4, "big", signed=True) + binary_behind
    assert with_prefix(header, body, serialize_type) == frame


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_empty_answer_is_the_frame_that_encode_makes(opaque: int) -> None:
    assert EmptyResponses().encode(opaque) == encode(response(Command(200051, opaque)))
