"""Learning rate schedules."""

import math

from nmt.config import ScheduleConfig, ScheduleName


def learning_rate(update: int, config: ScheduleConfig, max_updates: int) -> float:
    """Return the learning rate of `update`, counted from 1.

    It rises linearly to the peak during warm-up, then follows one of three schedules:

    - `inverse_square_root`: peak * sqrt(warmup / update). This is equation 3 of Vaswani et al.
      (2017) with an explicit peak.
    - `cosine`: half a cosine from the peak to the final rate at `max_updates` (Loshchilov and
      Hutter 2017, equation 5).
    - `warmup_stable_decay`: constant, then linear to the final rate over the last `decay_share` of
      the updates (Hägele et al. 2024, section 3.1).
    """
    peak, warmup = config.peak_learning_rate, config.warmup_updates
    if update <= warmup:
        return peak * update / warmup
    if config.name is ScheduleName.inverse_square_root:
        return peak * math.sqrt(warmup / update)
    final = config.final_learning_rate
    if config.name is ScheduleName.warmup_stable_decay:
        ahead = max(0.0, (max_updates - update) / (config.decay_share * max_updates))
        return final + (peak - final) * min(1.0, ahead)
    done = min(1.0, (update - warmup) / max(1, max_updates - warmup))
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * done))
