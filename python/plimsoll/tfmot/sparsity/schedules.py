"""What share of a weight is zero at a step."""


class PruningSchedule:
    """Says at a step whether masks change, and the share of zeros."""

    def _should_prune_in_step(self, step, begin_step, end_step, frequency):
        is_over = end_step != -1 and step > end_step
        return step >= begin_step and not is_over and (step - begin_step) % frequency == 0

    @staticmethod
    def _validate(begin_step, end_step, frequency, allow_negative_1=True):
        if begin_step < 0:
            raise ValueError("begin_step should be >= 0")
        if end_step < 0 and not (allow_negative_1 and end_step == -1):
            raise ValueError("end_step cannot be negative" + (" except for -1" if allow_negative_1 else ""))
        if 0 <= end_step < begin_step:
            raise ValueError("begin_step should be <= end_step if end_step != -1")
        if frequency <= 0:
            raise ValueError("frequency should be > 0")

    @staticmethod
    def _validate_sparsity(sparsity, name):
        if not 0.0 <= sparsity < 1.0:
            raise ValueError(f"{name} must be in range [0,1)")

    def get_config(self):
        return {"class_name": type(self).__name__, "config": dict(vars(self))}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


class ConstantSparsity(PruningSchedule):
    def __init__(self, target_sparsity, begin_step, end_step=-1, frequency=100):
        self.target_sparsity, self.begin_step, self.end_step, self.frequency = (target_sparsity, begin_step, end_step,
                                                                                frequency)
        self._validate(begin_step, end_step, frequency)
        self._validate_sparsity(target_sparsity, "target_sparsity")

    def __call__(self, step):
        return self._should_prune_in_step(step, self.begin_step, self.end_step, self.frequency), self.target_sparsity


class PolynomialDecay(PruningSchedule):
    def __init__(self, initial_sparsity, final_sparsity, begin_step, end_step, power=3, frequency=100):
        self.initial_sparsity, self.final_sparsity, self.power = initial_sparsity, final_sparsity, power
        self.begin_step, self.end_step, self.frequency = begin_step, end_step, frequency
        self._validate(begin_step, end_step, frequency, allow_negative_1=False)
        self._validate_sparsity(initial_sparsity, "initial_sparsity")
        self._validate_sparsity(final_sparsity, "final_sparsity")

    def __call__(self, step):
        share = min(1.0, max(0.0, (step - self.begin_step) / (self.end_step - self.begin_step))) \
            if self.end_step > self.begin_step else 1.0
        sparsity = (self.initial_sparsity - self.final_sparsity) * (1 - share) ** self.power + self.final_sparsity
        return self._should_prune_in_step(step, self.begin_step, self.end_step, self.frequency), sparsity
