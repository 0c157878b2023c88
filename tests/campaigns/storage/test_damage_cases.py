"""A sample of the campaign; ``damage`` runs all of it."""

from random import Random

import pytest
from tests.campaigns.storage.damage_cases import Kind, Outcome, Variant, cut_cases, flip_case, run

FLIPS = 20
CUTS = 8
FEW = 400
"""Messages of the sample's store: all files roll, but the index."""


@pytest.mark.parametrize("closed", [True, False])
def test_a_flipped_bit_does_no_harm_to_what_it_did_not_hit(closed: bool) -> None:
    for number in range(FLIPS):
        case = flip_case(Variant(closed, messages=FEW), number)
        verdict = run(case)
        assert verdict.outcome is not Outcome.FAILED, f"{case}: {verdict.detail}"


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("closed", [True, False])
def test_a_cut_does_no_harm_to_what_lies_before_it(closed: bool, kind: Kind) -> None:
    cases = list(cut_cases(Variant(closed, messages=FEW), kind))
    for case in Random(1).sample(cases, min(CUTS, len(cases))):
        verdict = run(case)
        assert verdict.outcome is not Outcome.FAILED, f"{case}: {verdict.detail}"
