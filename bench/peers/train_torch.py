# A training in PyTorch as a user writes it: images and labels from npy files, a batch at a time, Adam.
import argparse

import numpy
import torch

import torch_models


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--batch', type=int, required=True)
    parser.add_argument('--steps', type=int, required=True)
    parser.add_argument('--threads', type=int, required=True)
    parser.add_argument('--x', required=True)
    parser.add_argument('--y', required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = torch_models.make(arguments.model).to(memory_format=torch.channels_last)  # the faster format here
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    x, y = numpy.load(arguments.x, mmap_mode='r'), torch.from_numpy(numpy.load(arguments.y))
    batches = len(x) // arguments.batch
    for step in range(arguments.steps):
        rows = slice(step % batches * arguments.batch, (step % batches + 1) * arguments.batch)
        images = torch.from_numpy(numpy.array(x[rows])).float().contiguous(memory_format=torch.channels_last)
        optimiser.zero_grad(set_to_none=True)
        loss = torch_models.loss(arguments.model, model(images), y[rows])
        loss.backward()
        optimiser.step()
        loss.item()


if __name__ == '__main__':
    main()
