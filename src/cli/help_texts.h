// Texts below the flags of a verb.
#pragma once

namespace plimsoll::cli {

constexpr const char* kGlossary = R"(
Levers, which make a step fit (--without takes them away, bit-identical unless said):
  order        tasks run in the order with the lowest peak that gives the same numbers
  in place     a result is written over an input that no later task reads
  variants     a kernel is run in a form that needs less workspace and more time
  masks        a bit for each element is kept instead of the output of relu or clip
  recompute    values are dropped after a use and recomputed before the next
  micro-batch  the step runs on some samples at a time and adds their gradients: sums are rounded differently
  spill        weights, optimiser state or values are kept in a scratch file on a disk (only with --scratch)
What memory is held for:
  weights, gradients, optimiser  what is trained, its gradients, and the optimiser's state
  activations  values between forward and backward pass
  workspace    temporary memory of one kernel while it runs
  data         batches that are read ahead
  staging      buffers of transfers to and from the scratch file
  runtime      the program, its libraries, threads and tables
Numbers:
  line         the bytes that the whole process stays below
  limit        why the step is slower than without a line, and the next line with a faster plan
  as written   the peak without any lever; unconstrained: the time without a line
  lower bound  no plan of this step can have a lower peak
  micro-batch  the samples of the batch that are computed at once)";

constexpr const char* kTrainExamples = R"(Examples:
  plimsoll train fashion --data /usr/share/datasets/fashion-mnist --memory 48MiB --epochs 5
  plimsoll train resnet18 --data flowers/ --map flip,normalise -m 512MiB --run runs/1
)";

}  // namespace plimsoll::cli
