// Simulation of one rank per class over the bound program: the same instructions the executor runs,
// with a clock per queue instead of work. See shoal/simulate.h for what is and is not modelled.
#include "shoal/simulate.h"

#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "cluster/cluster.h"
#include "program/bind.h"

static double part_bytes(const shoal_bound_buffer_t *buffer) {
  return buffer ? (double)buffer->count * (double)shoal_dtype_size(buffer->type.dtype) : 0;
}

static double reshard_seconds(const shoal_bound_instruction_t *in, const shoal_channel_t *channel,
                              const shoal_cluster_t *cluster, double *out_sent) {
  const shoal_motion_t *reshard = in->reshard;
  double element = (double)shoal_dtype_size(channel->type.dtype);
  if (!reshard) return 0;
  if (reshard->collective && reshard->kind == SHOAL_RESHARD_ALL_REDUCE) {
    // Ring: 2 (n - 1) steps of 1/n of the data.
    double n = reshard->group_count > 0 ? reshard->group_count : 1;
    double bytes = in->outputs && in->outputs[0] ? part_bytes(in->outputs[0]) : 0;
    *out_sent = 2 * bytes * (n - 1) / n;
    return 2 * (n - 1) * cluster->groups[0].link.latency +
           *out_sent / cluster->groups[0].link.bandwidth;
  }
  double received = 0;
  *out_sent = 0;
  for (int32_t i = 0; i < reshard->send_count; ++i)
    *out_sent += (double)reshard->sends[i].count * element;
  for (int32_t i = 0; i < reshard->recv_count; ++i)
    received += (double)reshard->recvs[i].count * element;
  if (reshard->collective) {
    // Gather, or scatter of sums: each sends its part, or the others', once to each.
    double own =
        part_bytes(reshard->kind == SHOAL_RESHARD_ALL_GATHER ? in->inputs[0] : in->outputs[0]);
    double all =
        part_bytes(reshard->kind == SHOAL_RESHARD_ALL_GATHER ? in->outputs[0] : in->inputs[0]);
    double others = all - own, n = reshard->group_count;
    *out_sent = reshard->kind == SHOAL_RESHARD_ALL_GATHER ? own * (n - 1) : others;
    double most = own * (n - 1) > others ? own * (n - 1) : others;
    return (n - 1) * cluster->groups[0].link.latency + most / cluster->groups[0].link.bandwidth;
  }
  int32_t messages =
      reshard->send_count > reshard->recv_count ? reshard->send_count : reshard->recv_count;
  double bytes = *out_sent > received ? *out_sent : received;
  return messages * cluster->groups[0].link.latency + bytes / cluster->groups[0].link.bandwidth;
}

static double instruction_seconds(const shoal_bound_instruction_t *in,
                                  const shoal_program_t *program, const shoal_cluster_t *cluster,
                                  double *out_sent) {
  *out_sent = 0;
  if (in->idle) return 0;
  const shoal_instruction_t *code = in->instruction;
  if (code->opcode == SHOAL_OPCODE_RESHARD)
    return reshard_seconds(in, &program->channels[code->channel], cluster, out_sent);
  double bytes = 0, flops = 0;
  if (code->opcode == SHOAL_OPCODE_COMPUTE) {
    shoal_cost_t cost = shoal_op_cost(&in->call);
    bytes = cost.bytes;
    flops = cost.flops;
  } else {
    for (int32_t i = 0; i < code->input_count; ++i) bytes += part_bytes(in->inputs[i]);
    for (int32_t o = 0; o < code->output_count; ++o) bytes += part_bytes(in->outputs[o]);
  }
  double by_flops = flops / cluster->groups[0].device.flops[SHOAL_F32],
         by_bytes = bytes / cluster->groups[0].device.bandwidth;
  return by_flops > by_bytes ? by_flops : by_bytes;
}

// Runs one class's order on clocks; segments are joined at their ends, as in the executor.
static shoal_status_t simulate_order(const shoal_bound_t *bound, const shoal_bound_order_t *order,
                                     const shoal_cluster_t *cluster, shoal_arena_t *scratch,
                                     shoal_simulation_t *out) {
  double now = 0;
  for (int64_t c = 0; c < order->call_count; ++c) {
    const shoal_bound_call_t *call = &order->calls[c];
    double *ends = SHOAL_NEW(scratch, double, call->instruction_count);
    double clock[SHOAL_QUEUE_COUNT];
    if (!ends) return SHOAL_OOM();
    for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q) clock[q] = now;
    for (int64_t i = 0; i < call->instruction_count; ++i) {
      const shoal_bound_instruction_t *in = &call->instructions[i];
      const shoal_instruction_t *code = in->instruction;
      double start = clock[code->queue], sent = 0;
      for (int32_t w = 0; w < code->wait_count; ++w)
        if (ends[code->waits[w]] > start) start = ends[code->waits[w]];
      double seconds = instruction_seconds(in, bound->program, cluster, &sent);
      if (code->queue == SHOAL_QUEUE_COMPUTE) out->compute_seconds += seconds;
      if (code->queue == SHOAL_QUEUE_COMM) out->comm_seconds += seconds;
      out->comm_bytes += sent;
      clock[code->queue] = ends[i] = start + seconds;
    }
    for (int q = 0; q < SHOAL_QUEUE_COUNT; ++q)
      if (clock[q] > now) now = clock[q];
  }
  out->seconds = now;
  return NULL;
}

shoal_status_t shoal_simulate(const shoal_program_t *program, const char *graph,
                              const shoal_cluster_t *cluster, shoal_allocator_t allocator,
                              shoal_simulation_t *out_simulation) {
  memset(out_simulation, 0, sizeof *out_simulation);
  if (!allocator.alloc) allocator = shoal_allocator_system();
  int64_t largest = 0;
  bool found = false;
  for (int64_t k = 0; k < program->class_count; ++k) {
    shoal_arena_t scratch;
    shoal_arena_init(allocator, &scratch);
    shoal_bound_t bound = {0};
    shoal_simulation_t mine = {0};
    shoal_status_t status =
        shoal_program_bind(program, program->classes[k].ranks[0], &scratch, &bound);
    for (int64_t o = 0; o < bound.order_count && !status; ++o) {
      if (strcmp(bound.orders[o].graph, graph) != 0) continue;
      found = true;
      status = simulate_order(&bound, &bound.orders[o], cluster, &scratch, &mine);
    }
    shoal_arena_deinit(&scratch);
    if (status) return status;
    if (program->classes[k].arena_bytes > largest) largest = program->classes[k].arena_bytes;
    if (mine.seconds >= out_simulation->seconds) *out_simulation = mine;
  }
  out_simulation->arena_bytes = largest;
  if (!found) return SHOAL_ERROR(NOT_FOUND, "the program has no graph '%s'", graph);
  return NULL;
}
