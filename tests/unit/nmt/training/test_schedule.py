import pytest

from nmt.config import ScheduleConfig, ScheduleName
from nmt.training.schedule import learning_rate


def test_it_is_equation_3_of_the_paper() -> None:
    width, warmup = 512, 4000
    config = ScheduleConfig(peak_learning_rate=(width * warmup) ** -0.5, warmup_updates=warmup)
    for update in (1, 17, 3999, 4000, 4001, 100_000):
        paper = width**-0.5 * min(update**-0.5, update * warmup**-1.5)
        assert learning_rate(update, config, 100_000) == pytest.approx(paper)


@pytest.mark.parametrize("name", list(ScheduleName))
def test_warm_up_is_linear_to_the_peak(name: ScheduleName) -> None:
    config = ScheduleConfig(name=name, peak_learning_rate=2e-3, warmup_updates=100)
    assert learning_rate(1, config, 1000) == pytest.approx(2e-5)
    assert learning_rate(50, config, 1000) == pytest.approx(1e-3)
    assert learning_rate(100, config, 1000) == pytest.approx(2e-3)
    rates = [learning_rate(update, config, 1000) for update in range(100, 1001)]
    assert rates == sorted(rates, reverse=True)


def test_the_cosine_ends_at_the_final_rate() -> None:
    config = ScheduleConfig(
        name=ScheduleName.cosine,
        peak_learning_rate=1e-3,
        warmup_updates=100,
        final_learning_rate=1e-5,
    )
    assert learning_rate(101, config, 1100) == pytest.approx(1e-3, rel=1e-4)
    assert learning_rate(600, config, 1100) == pytest.approx((1e-3 + 1e-5) / 2)
    assert learning_rate(1100, config, 1100) == pytest.approx(1e-5)
    assert learning_rate(2000, config, 1100) == pytest.approx(1e-5)


def test_the_peak_lasts_until_the_line_down() -> None:
    config = ScheduleConfig(
        name=ScheduleName.warmup_stable_decay,
        peak_learning_rate=1e-3,
        warmup_updates=100,
        final_learning_rate=1e-5,
        decay_share=0.2,
    )
    assert learning_rate(101, config, 1000) == learning_rate(800, config, 1000) == 1e-3
    assert learning_rate(900, config, 1000) == pytest.approx((1e-3 + 1e-5) / 2)
    assert learning_rate(1000, config, 1000) == pytest.approx(1e-5)
    assert learning_rate(2000, config, 1000) == pytest.approx(1e-5)
