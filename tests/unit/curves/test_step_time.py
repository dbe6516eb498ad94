"""The step-time model by hand, and the fit on points that it made."""

from collections.abc import Sequence

import numpy as np
import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.curves.fit import Points, StepTimeFit, fit_step_time
from mtpilot.curves.step_time import StepTime, experts_read

MODEL = StepTime(
    step_milliseconds=10.0,
    token_milliseconds=0.1,
    experts_milliseconds=20.0,
    context_nanoseconds=2.0,
    mtp_context_nanoseconds=3.0,
    draft_milliseconds=-1.0,
    draft_request_milliseconds=0.05,
    draft_tokens=2,
    experts=128,
    active_experts=8,
)


def test_a_batch_step_by_hand():
    read = experts_read(np.array([4.0]), 128, 8)[0]
    expected = 10 + 0.1 * 4 + 20 * read + 2e-6 * 4 * 1000
    assert MODEL.milliseconds(Mode.BATCH, np.array([4.0]), 1000)[0] == pytest.approx(expected)
    assert MODEL.tokens_per_second(Mode.BATCH, np.array([4.0]), 1000)[0] == pytest.approx(4000 / expected)


def test_an_mtp_step_verifies_one_token_more_than_drafted_and_gains_the_accept_length():
    read = experts_read(np.array([12.0]), 128, 8)[0]
    expected = 10 + 0.1 * 12 + 20 * read + 3e-6 * 4 * 1000 - 1 + 0.05 * 4
    assert MODEL.milliseconds(Mode.MTP, np.array([4.0]), 1000)[0] == pytest.approx(expected)
    assert MODEL.tokens_per_second(Mode.MTP, np.array([4.0]), 1000, 2.2)[0] == pytest.approx(2.2 * 4000 / expected)


def test_the_share_of_experts_rises_from_one_tokens_to_all():
    tokens = np.array([1.0, 8.0, 64.0, 1e9])
    share = experts_read(tokens, 128, 8)
    assert share[0] == pytest.approx(8 / 128, rel=0.2)
    assert np.all(np.diff(share) > 0)
    assert share[-1] == pytest.approx(1, abs=1e-3)
    assert not experts_read(tokens, None, None).any()


def points(contexts: Sequence[float] = (1000.0, 32_000.0), levels: Sequence[float] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)) -> Points:
    grid = [(mode, level, context) for mode in (Mode.MTP, Mode.BATCH) for level in levels for context in contexts]
    rates = [MODEL.tokens_per_second(mode, np.array([level]), context, 2.0)[0] for mode, level, context in grid]
    return Points(
        mtp=np.array([float(mode is Mode.MTP) for mode, _, _ in grid]),
        requests=np.array([level for _, level, _ in grid]),
        context_tokens=np.array([context for _, _, context in grid]),
        tokens_per_second=np.array(rates),
        accept_length=np.array([2.0 if mode is Mode.MTP else 1.0 for mode, _, _ in grid]),
    )


def fit(found: Points, repeat_noise: float = 0.0) -> StepTimeFit:
    fitted = fit_step_time(found, draft_tokens=2, experts=128, active_experts=8, repeat_noise=repeat_noise)
    assert fitted is not None
    return fitted


def test_a_fit_finds_the_parameters_that_made_the_points():
    found = fit(points())
    assert found.mape < 1e-6
    assert found.noise == 0.03
    for name in ("step_milliseconds", "token_milliseconds", "experts_milliseconds", "context_nanoseconds", "mtp_context_nanoseconds"):
        assert getattr(found.model, name) == pytest.approx(getattr(MODEL, name), rel=1e-3), name
    assert found.model.draft_milliseconds == pytest.approx(-1, abs=0.01)


def test_one_bad_point_moves_the_fit_little():
    clean = points()
    bad = clean.tokens_per_second.copy()
    bad[3] *= 0.5
    found = fit(
        Points(**{name: getattr(clean, name) for name in ("mtp", "requests", "context_tokens", "accept_length")}, tokens_per_second=bad)
    )
    rate = found.model.tokens_per_second(Mode.MTP, np.array([2.0]), 32_000.0, 2.0)[0]
    assert rate == pytest.approx(clean.tokens_per_second[3], rel=0.05)


def test_the_errors_are_those_of_repeated_measurement():
    """The linearised error against the spread of 40 fits to freshly drawn noise."""
    rng = np.random.default_rng(3)
    clean = points()
    found = fit(points(), repeat_noise=0.05)
    batch = clean.mtp == 0
    logs = []
    for _ in range(40):
        drawn = Points(
            mtp=clean.mtp,
            requests=clean.requests,
            context_tokens=clean.context_tokens,
            accept_length=clean.accept_length,
            tokens_per_second=clean.tokens_per_second * np.exp(rng.normal(0, 0.05, len(clean.mtp))),
        )
        model = fit(drawn).model
        rates = [
            model.tokens_per_second(Mode.BATCH, np.array([c]), s)[0]
            for c, s in zip(clean.requests[batch], clean.context_tokens[batch], strict=True)
        ]
        logs.append(np.log(rates))
    spread = float(np.sqrt(np.mean(np.var(logs, axis=0))))
    assert found.batch_error == pytest.approx(spread, rel=0.35)


@pytest.mark.parametrize("levels", [(1.0,), (1.0, 2.0)])
def test_too_few_levels_are_no_fit(levels):
    assert fit_step_time(points(levels=levels, contexts=(1000.0,)), draft_tokens=2, experts=128, active_experts=8) is None


def test_with_one_context_nothing_is_said_of_context():
    found = fit(points(contexts=(1000.0,)))
    assert found.model.context_nanoseconds == found.model.mtp_context_nanoseconds == 0
    assert found.mape < 0.001
