"""Ten epochs of LeNet-5 on 60,000 random images in PyTorch: prints the seconds.

    ~/peers/bin/python torch_lenet.py --mode eager

Model, batch and optimizer are those of the config `lenet` with `train.batch_size = 128`: 4,690
steps, each image once an epoch. The seconds begin before the images are drawn.
"""

import argparse
import time

import torch
import torch.nn.functional as F

from measure import WORKLOADS, one_cpu_per_core, positive
from torch_steps import LEARNING_RATE, LeNet, compiled, lenet


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--threads", type=positive, default=len(one_cpu_per_core()))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shape = WORKLOADS["lenet"]
    begin = time.time()
    images = torch.rand(60_000, 1, 28, 28)
    targets = torch.randint(shape.classes, (60_000,))
    model = lenet(shape.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE[LeNet], fused=True)
    forward = compiled(model, arguments.mode)
    for _ in range(10):
        for chosen in torch.randperm(60_000).split(shape.batch):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(forward(images[chosen]), targets[chosen]).backward()
            optimizer.step()
    print(f"{arguments.mode}: {time.time() - begin:.1f} s")


if __name__ == "__main__":
    main()
