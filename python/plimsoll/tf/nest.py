"""tf.nest: lists, tuples, named tuples and dictionaries of values."""


def is_nested(value):
    return isinstance(value, (list, tuple, dict))


def flatten(structure, expand_composites=False):
    if isinstance(structure, dict):
        return [leaf for key in _keys(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in flatten(part)]
    return [structure]


def _keys(structure):
    try:
        return sorted(structure)
    except TypeError:
        return list(structure)


def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    leaves = iter(flat_sequence)
    return _pack(structure, leaves)


def _pack(structure, leaves):
    if isinstance(structure, dict):
        packed = {key: _pack(structure[key], leaves) for key in _keys(structure)}
        return type(structure)((key, packed[key]) for key in structure)
    if isinstance(structure, (list, tuple)):
        return rebuild(structure, [_pack(part, leaves) for part in structure])
    return next(leaves)


def rebuild(like, parts):
    """A list, tuple or named tuple of these parts."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def map_structure(func, *structure, **options):
    first = structure[0]
    if isinstance(first, dict):
        _expect_same(structure, dict)
        return type(first)((key, map_structure(func, *(part[key] for part in structure))) for key in first)
    if isinstance(first, (list, tuple)):
        _expect_same(structure, (list, tuple))
        return rebuild(first, [map_structure(func, *parts) for parts in zip(*structure)])
    return func(*structure)


def _expect_same(structures, kind):
    for other in structures[1:]:
        if not isinstance(other, kind) or len(other) != len(structures[0]):
            raise ValueError(f"The two structures don't have the same nested structure: {structures[0]!r}, {other!r}")


def assert_same_structure(nest1, nest2, check_types=True, expand_composites=False):
    map_structure(lambda a, b: None, nest1, nest2)
