"""tf.keras.optimizers.schedules: the learning rate as a function of the step."""
import math

import numpy as np

from ..._tensor import of_host


class LearningRateSchedule:
    """A function of the number of updates done."""

    def __call__(self, step):
        raise NotImplementedError

    def rate(self, step):
        return float(self(step))

    def get_config(self):
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _number(step):
    return float(step)


def _made(rate):
    return of_host(np.float32(rate))


class ExponentialDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate, decay_steps, decay_rate, staircase=False, name="ExponentialDecay"):
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase, self.name = decay_rate, staircase, name

    def __call__(self, step):
        share = _number(step) / self.decay_steps
        return _made(self.initial_learning_rate * self.decay_rate ** (math.floor(share) if self.staircase else share))


class InverseTimeDecay(ExponentialDecay):
    def __call__(self, step):
        share = _number(step) / self.decay_steps
        return _made(self.initial_learning_rate / (1 + self.decay_rate * (math.floor(share) if self.staircase else share)))


class PolynomialDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False,
                 name="PolynomialDecay"):
        self.initial_learning_rate, self.decay_steps, self.end_learning_rate = (initial_learning_rate, decay_steps,
                                                                                end_learning_rate)
        self.power, self.cycle, self.name = power, cycle, name

    def __call__(self, step):
        step, steps = _number(step), self.decay_steps
        if self.cycle:
            steps = steps * (1 if step == 0 else math.ceil(step / steps))
        else:
            step = min(step, steps)
        return _made((self.initial_learning_rate - self.end_learning_rate) * (1 - step / steps) ** self.power
                     + self.end_learning_rate)


class PiecewiseConstantDecay(LearningRateSchedule):
    def __init__(self, boundaries, values, name="PiecewiseConstant"):
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values.")
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step):
        step = _number(step)
        for boundary, value in zip(self.boundaries, self.values):
            if step <= boundary:
                return _made(value)
        return _made(self.values[-1])


class CosineDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate, decay_steps, alpha=0.0, name="CosineDecay", warmup_target=None,
                 warmup_steps=0):
        self.initial_learning_rate, self.decay_steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.name, self.warmup_target, self.warmup_steps = name, warmup_target, warmup_steps

    def __call__(self, step):
        step, first = _number(step), self.initial_learning_rate
        if self.warmup_target is not None:
            if step < self.warmup_steps:
                return _made(first + (self.warmup_target - first) * step / self.warmup_steps)
            first, step = self.warmup_target, step - self.warmup_steps
        share = min(step, self.decay_steps) / self.decay_steps
        return _made(first * ((1 - self.alpha) * 0.5 * (1 + math.cos(math.pi * share)) + self.alpha))


class CosineDecayRestarts(LearningRateSchedule):
    def __init__(self, initial_learning_rate, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0,
                 name="SGDRDecay"):
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step):
        share = _number(step) / self.first_decay_steps
        if self.t_mul == 1.0:
            turn = math.floor(share)
            share -= turn
        else:
            turn = math.floor(math.log(1 - share * (1 - self.t_mul)) / math.log(self.t_mul))
            share = (share - (1 - self.t_mul**turn) / (1 - self.t_mul)) / self.t_mul**turn
        decayed = 0.5 * self.m_mul**turn * (1 + math.cos(math.pi * share))
        return _made(self.initial_learning_rate * ((1 - self.alpha) * decayed + self.alpha))
