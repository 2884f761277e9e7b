"""tf.config: settings of devices and memory, which the line replaces here."""
from . import _engine
from ._absent import absent


class PhysicalDevice:
    def __init__(self, name, device_type):
        self.name, self.device_type = name, device_type

    def __repr__(self):
        return f"PhysicalDevice(name='{self.name}', device_type='{self.device_type}')"


LogicalDevice = PhysicalDevice
_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")


class LogicalDeviceConfiguration:
    def __init__(self, memory_limit=None, experimental_priority=None, experimental_device_ordinal=None):
        self.memory_limit = memory_limit


def list_physical_devices(device_type=None):
    return [_CPU] if device_type in (None, "CPU") else []


def list_logical_devices(device_type=None):
    return [PhysicalDevice("/device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


def get_visible_devices(device_type=None):
    return list_physical_devices(device_type)


def _without_meaning(name, advice):
    def call(*args, **kwargs):
        _engine.note(name, f"tf.config.{name} has no meaning here: {advice}")
    call.__name__ = name
    return call


_LINE = "memory is what the line says; set it by tf.set_line or PLIMSOLL_LINE"
_ONE = "there is one device, the processor"
set_visible_devices = _without_meaning("set_visible_devices", _ONE)
set_logical_device_configuration = _without_meaning("set_logical_device_configuration", _LINE)
set_soft_device_placement = _without_meaning("set_soft_device_placement", _ONE)


def get_soft_device_placement():
    return True


def get_logical_device_configuration(device):
    return None


def run_functions_eagerly(run_eagerly):
    pass


def functions_run_eagerly():
    return True


class optimizer:
    @staticmethod
    def set_jit(enabled):
        _engine.note("jit", "tf.config.optimizer.set_jit has no meaning here: what runs is always planned and fused")

    @staticmethod
    def set_experimental_options(options):
        _engine.note("jit", "tf.config.optimizer has no meaning here: what runs is always planned and fused")

    @staticmethod
    def get_jit():
        return ""


class threading:
    @staticmethod
    def set_inter_op_parallelism_threads(num_threads):
        _engine.note("threads", "inter-op threads have no meaning here: operators run one after another, each on all threads")

    @staticmethod
    def set_intra_op_parallelism_threads(num_threads):
        import plimsoll
        plimsoll.set_threads(int(num_threads))

    @staticmethod
    def get_intra_op_parallelism_threads():
        return 0

    @staticmethod
    def get_inter_op_parallelism_threads():
        return 0


class experimental:
    VirtualDeviceConfiguration = LogicalDeviceConfiguration
    list_physical_devices = staticmethod(list_physical_devices)
    list_logical_devices = staticmethod(list_logical_devices)
    set_memory_growth = staticmethod(_without_meaning("experimental.set_memory_growth", _LINE))
    set_virtual_device_configuration = staticmethod(_without_meaning("experimental.set_virtual_device_configuration", _LINE))
    set_visible_devices = staticmethod(set_visible_devices)
    enable_op_determinism = staticmethod(lambda: None)
    enable_tensor_float_32_execution = staticmethod(lambda enabled: None)

    @staticmethod
    def get_memory_growth(device):
        return False

    @staticmethod
    def get_memory_info(device):
        return _engine.memory_facts()

    @staticmethod
    def get_memory_usage(device):
        return _engine.memory_facts()["current"]

    @staticmethod
    def reset_memory_stats(device):
        _engine.note("memory_stats", "tf.config.experimental.reset_memory_stats: the peak is that of the whole program")


def experimental_run_functions_eagerly(run_eagerly):
    pass


def experimental_connect_to_cluster(*args, **kwargs):
    _engine.note("cluster", "there is no cluster: several processes are started by mpirun, with plimsoll.Strategy.ranks")


__getattr__ = absent("tf.config", globals())
