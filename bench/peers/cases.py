# The cases of bench/compare, the systems, and the settings that each system is tried with.
from collections import namedtuple

# like: the case whose best settings of the peers are taken, another batch of the same model.
Case = namedtuple('Case', 'name model batch sequence inference like', defaults=(None, False, None))

# Quick ones first, so that an interrupted run has something to show.
CASES = [
    Case('mlp', 'mlp', 128),
    Case('lenet', 'lenet', 128),
    Case('resnet50-inference-1', 'resnet50', 1, inference=True),
    Case('resnet50-inference-16', 'resnet50', 16, inference=True),
    Case('resnet18-16', 'resnet18', 16),
    Case('resnet18-32', 'resnet18', 32, like='resnet18-16'),
    Case('mobilenet_v2', 'mobilenet_v2', 32),
    Case('gpt2-small-2', 'gpt2-small', 2, 256),
    Case('gpt2-small-4', 'gpt2-small', 4, 256, like='gpt2-small-2'),
    Case('bert-base', 'bert-base', 8, 128),
    Case('unet', 'unet', 4),
    Case('resnet50-8', 'resnet50', 8),
    Case('resnet50-16', 'resnet50', 16, like='resnet50-8'),
    Case('resnet50-32', 'resnet50', 32, like='resnet50-8'),
    Case('vgg16', 'vgg16', 8),
    Case('dense-chain', 'dense-chain', 1000),
]

SYSTEMS = ['plimsoll', 'torch', 'tensorflow', 'onnxruntime']
ONLY_INFERENCE = {'onnxruntime'}
WITHOUT_IMAGES = {'mlp', 'dense-chain', 'bert-base', 'gpt2-small'}


def ways_of(system, case):
    """Settings to try first, as words with + between them; 'plain' has none."""
    if system in ('plimsoll', 'onnxruntime'):
        return ['plain']
    if system == 'tensorflow':
        return ['plain', 'xla'] + (['frozen'] if case.inference else [])
    layouts = [''] if case.model in WITHOUT_IMAGES else ['', 'channels_last']
    ways = ['', 'compile'] + (['jit'] if case.inference else [])
    return ['+'.join(filter(None, (way, layout))) or 'plain' for way in ways for layout in layouts]


def quick_way_of(system, case):
    return 'channels_last' if system == 'torch' and case.model not in WITHOUT_IMAGES else 'plain'


def known_ways_of(system, case):
    """Settings that were good on the machine of bench/README.md. For mlp, lenet, resnet18-16 and inference they were
    close to the best when all were tried; for bert and gpt2 they were the best of those with tcmalloc; the others are
    taken from these by likeness."""
    if system in ('plimsoll', 'onnxruntime'):
        return ['plain']
    if system == 'tensorflow':
        return {'mlp': ['xla', 'xla+hugepages'], 'resnet50-inference-1': ['hugepages'], 'mobilenet_v2': ['tcmalloc'],
                'dense-chain': ['plain']}.get(case.name, ['tcmalloc' if case.inference else 'xla+tcmalloc'])
    if case.inference:
        return ['compile+channels_last']
    return {'mlp': ['compile', 'compile+tcmalloc'], 'lenet': ['channels_last+hugepages', 'channels_last+tcmalloc'],
            'mobilenet_v2': ['compile+tcmalloc', 'channels_last+tcmalloc']}.get(
                case.name, ['tcmalloc' if case.model in WITHOUT_IMAGES else 'channels_last+tcmalloc'])


def allocators_for(system, has_tcmalloc):
    """Words to try beside the best way."""
    if system not in ('torch', 'tensorflow'):
        return []
    return ['hugepages'] + (['tcmalloc'] if has_tcmalloc else [])


def with_word(setting, word):
    return word if setting == 'plain' else f'{setting}+{word}'
