# Steps of a model by one of several processes with PyTorch's DistributedDataParallel over gloo, timed. The first process
# prints one line of JSON.
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as distributed

import torch_models


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--batch', type=int, required=True, help='of all processes')
    parser.add_argument('--sequence', type=int)
    parser.add_argument('--layers', type=int, help='of a language model')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--rank', type=int, required=True)
    parser.add_argument('--ranks', type=int, required=True)
    parser.add_argument('--port', type=int, required=True)
    return parser.parse_args()


def make(arguments):
    if not arguments.layers:
        return torch_models.make(arguments.model)
    model = torch_models.Language(30522, 512, True, layers=arguments.layers)
    model.apply(torch_models.start_as_built_in)
    return model


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(arguments.port), GLOO_SOCKET_IFNAME='lo')
    distributed.init_process_group('gloo', rank=arguments.rank, world_size=arguments.ranks)
    model = torch.nn.parallel.DistributedDataParallel(make(arguments), gradient_as_bucket_view=True)
    x, labels = torch_models.data(arguments.model, arguments.batch // arguments.ranks, arguments.sequence)
    optimiser = torch.optim.Adam(model.parameters(), eps=1e-7, fused=True)
    times = []
    for _ in range(2 + arguments.steps):
        begin = time.monotonic_ns()
        optimiser.zero_grad(set_to_none=True)
        torch_models.loss(arguments.model, model(x), labels).backward()
        optimiser.step()
        times.append(time.monotonic_ns() - begin)
    if arguments.rank == 0:
        print(json.dumps({'version': torch.__version__, 'step_ns': statistics.median(times[2:])}))
    distributed.destroy_process_group()


if __name__ == '__main__':
    main()
