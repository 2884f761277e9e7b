"""tf.TensorArray: a list of tensors."""
from ._array import concat, stack, unstack
from ._convert import convert
from ._types import as_dtype


class TensorArray:
    def __init__(self, dtype, size=0, dynamic_size=False, clear_after_read=None, tensor_array_name=None, handle=None,
                 flow=None, infer_shape=True, element_shape=None, colocate_with_first_write_call=True, name=None):
        self.dtype = as_dtype(dtype)
        self._parts = [None] * int(size)

    def write(self, index, value, name=None):
        index = int(index)
        made = self._copy()
        while len(made._parts) <= index:
            made._parts.append(None)
        made._parts[index] = convert(value, hint=self.dtype)
        return made

    def _copy(self):
        made = TensorArray(self.dtype)
        made._parts = self._parts  # as TensorFlow's eager code: the same list
        return made

    def read(self, index, name=None):
        return self._parts[int(index)]

    def stack(self, name=None):
        return stack(self._parts)

    def concat(self, name=None):
        return concat(self._parts, 0)

    def gather(self, indices, name=None):
        return stack([self._parts[int(i)] for i in indices])

    def unstack(self, value, name=None):
        made = self._copy()
        made._parts[:] = unstack(value)
        return made

    def size(self, name=None):
        return convert(len(self._parts))

    def close(self, name=None):
        pass
