# Reads the files of bench/data with PyTorch's DataLoader.
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import data_timing

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STDDEV = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Images(Dataset):
    """What torchvision's ImageFolder, Resize, ToTensor and Normalize do with Pillow."""

    def __init__(self, folder):
        self.classes = sorted(path.name for path in Path(folder).iterdir())
        self.files = [(str(path), label) for label, name in enumerate(self.classes)
                      for path in sorted((Path(folder) / name).iterdir())]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        with Image.open(path) as image:
            pixels = numpy.array(image.convert('RGB').resize((224, 224), Image.BILINEAR))
        x = torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float().div_(255)
        return x.sub_(MEAN).div_(STDDEV), label


def loader(arguments):
    workers = {'num_workers': arguments.threads, 'persistent_workers': True, 'prefetch_factor': 2}
    if arguments.what == 'images':
        return DataLoader(Images(f'{arguments.folder}/images'), batch_size=32, shuffle=True, **workers)
    arrays = [torch.from_numpy(numpy.load(f'{arguments.folder}/{name}.npy', mmap_mode='c')) for name in 'xy']
    rows = TensorDataset(*arrays)
    if arguments.setting == 'rows':
        return DataLoader(rows, batch_size=64, shuffle=True, **workers)
    batches = BatchSampler(RandomSampler(rows), batch_size=64, drop_last=False)
    if arguments.setting == 'batches':  # a batch is gathered by one index
        return DataLoader(rows, sampler=batches, batch_size=None, **workers)
    return DataLoader(rows, sampler=batches, batch_size=None)  # in the process itself


def main():
    arguments = data_timing.parse_arguments()
    torch.set_num_threads(1 if arguments.setting != 'alone' else arguments.threads)
    data = loader(arguments)

    def epoch():
        return sum(len(y) for _, y in data)

    data_timing.measure(arguments, epoch, f'torch {torch.__version__}', is_one_process=arguments.setting == 'alone')


if __name__ == '__main__':
    main()
