// Shoal: write the training step for one device; run it on many.
//
//   graph.h, ops.h, nn.h   write the step: values, ops, layers, losses
//   optimize.h             how it is trained: recipes, optimizers, rates, groups
//   zoo.h                  models by name
//   train.h                shoal_train: the loop, with data, checkpoints, logs and signals
//   session.h              shoal_parallelize, feed, run, fetch, save, load
//   data.h, checkpoint.h   data sets and batches; folders of checkpoints
//   tokenizer.h            text to token ids and back
//   metrics.h              the numbers of a run as files
//   convert.h              weights between names of Hugging Face and ours
//   generate.h             continue texts with a decoder
//   prove.h                shoal_check: does it compute on N ranks what it computes on one device?
//   explore.h              the same question, of random models and plans and of broken programs
//   plan.h, planners.h     how it is cut: strategies, plan files, strategies of your own
//   schedule.h             in which order pipeline stages run micro-batches
//   engine.h               such an order over forward and backward functions of your own
//   rules.h, layout.h      how ops may be cut; who holds what
//   op.h                   ops of your own
//   lower.h, program.h     from a plan to what ranks execute
//   simulate.h, cluster.h  what it would cost on machines that a file describes
//   comm.h, device.h       ranks and where they run
//   launch.h               a function on N ranks of this machine
//   group.h, primitive.h   groups from meshes; moving tensors between layouts, with adjoints
//   options.h              settings from the command line and the environment
//   dlpack.h               tensors for other frameworks
#ifndef SHOAL_SHOAL_H_
#define SHOAL_SHOAL_H_

#include "shoal/base.h"
#include "shoal/checkpoint.h"
#include "shoal/cluster.h"
#include "shoal/comm.h"
#include "shoal/convert.h"
#include "shoal/data.h"
#include "shoal/device.h"
#include "shoal/dlpack.h"
#include "shoal/engine.h"
#include "shoal/explore.h"
#include "shoal/generate.h"
#include "shoal/graph.h"
#include "shoal/group.h"
#include "shoal/launch.h"
#include "shoal/layout.h"
#include "shoal/lower.h"
#include "shoal/metrics.h"
#include "shoal/nn.h"
#include "shoal/op.h"
#include "shoal/ops.h"
#include "shoal/optimize.h"
#include "shoal/options.h"
#include "shoal/plan.h"
#include "shoal/planners.h"
#include "shoal/primitive.h"
#include "shoal/program.h"
#include "shoal/prove.h"
#include "shoal/rules.h"
#include "shoal/schedule.h"
#include "shoal/session.h"
#include "shoal/simulate.h"
#include "shoal/tokenizer.h"
#include "shoal/train.h"
#include "shoal/zoo.h"

#endif  // SHOAL_SHOAL_H_
