# The built-in models of src/model in PyTorch: the same layers, widths, dropout, padding and losses.
import torch
import torch.nn.functional as F
from torch import nn


def conv_norm(channels, filters, size, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(channels, filters, size, stride, size // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(filters))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def dense_chain():
    return nn.Sequential(*[part for _ in range(5000) for part in (nn.Linear(100, 100), nn.ReLU(inplace=True))])


class Residual(nn.Module):
    def __init__(self, channels, filters, stride, is_bottleneck):
        super().__init__()
        out = 4 * filters if is_bottleneck else filters
        relu = nn.ReLU(inplace=True)
        if is_bottleneck:
            self.branch = nn.Sequential(conv_norm(channels, filters, 1), relu, conv_norm(filters, filters, 3, stride),
                                        relu, conv_norm(filters, out, 1))
        else:
            self.branch = nn.Sequential(conv_norm(channels, filters, 3, stride), relu, conv_norm(filters, filters, 3))
        fits = stride == 1 and channels == out
        self.shortcut = nn.Identity() if fits else conv_norm(channels, out, 1, stride)

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x), inplace=True)


def resnet(depths, is_bottleneck):
    parts = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        filters = 64 << stage
        for i in range(depth):
            parts.append(Residual(channels, filters, 2 if stage > 0 and i == 0 else 1, is_bottleneck))
            channels = 4 * filters if is_bottleneck else filters
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class InvertedResidual(nn.Module):
    def __init__(self, channels, expansion, filters, stride):
        super().__init__()
        wide = channels * expansion
        parts = [conv_norm(channels, wide, 1), nn.ReLU6(inplace=True)] if expansion != 1 else []
        self.branch = nn.Sequential(*parts, conv_norm(wide, wide, 3, stride, wide), nn.ReLU6(inplace=True),
                                    conv_norm(wide, filters, 1))
        self.adds = stride == 1 and channels == filters

    def forward(self, x):
        return x + self.branch(x) if self.adds else self.branch(x)


def mobilenet_v2():
    parts = [conv_norm(3, 32, 3, 2), nn.ReLU6(inplace=True)]
    channels = 32
    for expansion, filters, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                               (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            parts.append(InvertedResidual(channels, expansion, filters, stride if i == 0 else 1))
            channels = filters
    return nn.Sequential(*parts, conv_norm(channels, 1280, 1), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


def vgg16():
    parts = []
    channels = 3
    for filters, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            parts += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        parts.append(nn.MaxPool2d(2))
    parts.append(nn.Flatten())
    width = 512 * 7 * 7
    for _ in range(2):
        parts += [nn.Linear(width, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        width = 4096
    return nn.Sequential(*parts, nn.Linear(4096, 1000))


def two_convolutions(channels, filters):
    return nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True),
                         nn.Conv2d(filters, filters, 3, padding=1), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(two_convolutions(a, b) for a, b in zip([3, *sizes], sizes[:-1]))
        self.bottom = two_convolutions(sizes[-2], sizes[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1]))
        self.join = nn.ModuleList(two_convolutions(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def attention(q, k, v, causal):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) * 0.125
    if causal:
        positions = q.shape[-2]
        scores = scores.masked_fill(torch.ones(positions, positions, dtype=torch.bool).triu(1), float('-inf'))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, epsilon, norm_first, causal, approximate):
        super().__init__()
        self.heads, self.norm_first, self.causal, self.approximate = width // 64, norm_first, causal, approximate
        self.project = nn.Linear(width, 3 * width)  # query, key and value at once
        self.output = nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.dropout = nn.Dropout(0.1)

    def attend(self, x):
        batch, positions, width = x.shape
        q, k, v = self.project(x).view(batch, positions, 3, self.heads, 64).permute(2, 0, 3, 1, 4)
        mixed = attention(q, k, v, self.causal)
        return self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, positions, width)))

    def feed(self, x):
        return self.dropout(self.fc2(F.gelu(self.fc1(x), approximate=self.approximate)))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Language(nn.Module):
    """Logits through the table of the words' embedding."""

    def __init__(self, words, positions, is_bert, width=768, layers=12):
        super().__init__()
        epsilon = 1e-12 if is_bert else 1e-5
        self.is_bert = is_bert
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(0.02 * torch.randn(positions, width))
        self.dropout = nn.Dropout(0.1)
        gelu = 'none' if is_bert else 'tanh'
        self.blocks = nn.Sequential(*[Block(width, epsilon, not is_bert, not is_bert, gelu) for _ in range(layers)])
        self.norm = nn.LayerNorm(width, epsilon)
        if is_bert:
            self.segments = nn.Parameter(0.02 * torch.randn(2, width))
            self.head, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, epsilon)

    def forward(self, x):
        x = self.words(x) + self.positions[:x.shape[1]]
        if self.is_bert:
            x = self.blocks(self.dropout(self.norm(x + self.segments[:1])))
            x = self.head_norm(F.gelu(self.head(x)))
        else:
            x = self.norm(self.blocks(self.dropout(x)))
        return F.linear(x, self.words.weight)


def start_as_built_in(module):
    """The values that src/model starts from, where they decide how fast numbers grow or vanish."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight)


MAKERS = {
    'mlp': mlp,
    'lenet': lenet,
    'dense-chain': dense_chain,
    'resnet18': lambda: resnet((2, 2, 2, 2), False),
    'resnet50': lambda: resnet((3, 4, 6, 3), True),
    'mobilenet_v2': mobilenet_v2,
    'vgg16': vgg16,
    'unet': UNet,
    'bert-base': lambda: Language(30522, 512, True),
    'gpt2-small': lambda: Language(50257, 1024, False),
}


def make(name):
    model = MAKERS[name]()
    model.apply(start_as_built_in)
    return model


def data(name, batch, sequence):
    """A batch of synthetic inputs and labels."""
    if name in ('bert-base', 'gpt2-small'):
        words = 30522 if name == 'bert-base' else 50257
        return torch.randint(words, (batch, sequence)), torch.randint(words, (batch, sequence))
    if name == 'dense-chain':
        return torch.rand(batch, 100), torch.rand(batch, 100)
    if name == 'unet':
        return torch.rand(batch, 3, 256, 256), torch.randint(2, (batch, 256, 256))
    if name in ('mlp', 'lenet'):
        return torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
    return torch.rand(batch, 3, 224, 224), torch.randint(1000, (batch,))


def loss(name, answer, labels):
    if name == 'dense-chain':
        return F.mse_loss(answer, labels)
    if name in ('bert-base', 'gpt2-small'):
        return F.cross_entropy(answer.flatten(0, 1), labels.flatten())
    return F.cross_entropy(answer, labels)
