// Counting what programs exercise: layouts of buffers, reshards, instructions in place, memory,
// slots and waits. What plans say is counted in coverage.c.
#include <string.h>

#include "base/status.h"
#include "explore/coverage.h"
#include "explore/exchanges.h"
#include "program/program_impl.h"

// ---- layouts ------------------------------------------------------------------------------------

static bool add_cut(shoal_coverage_t *c, const shoal_cut_t *cut) {
  bool ok = true;
  if (cut->kind == SHOAL_CUT_PARTIAL) {
    if (cut->reduce == SHOAL_REDUCE_SUM) ok = shoal_coverage_occurs(c, "feature", "partial sum");
    if (cut->reduce == SHOAL_REDUCE_MAX) ok = shoal_coverage_occurs(c, "feature", "partial max");
    if (cut->reduce == SHOAL_REDUCE_MIN) ok = shoal_coverage_occurs(c, "feature", "partial min");
    if (cut->reduce == SHOAL_REDUCE_PROD) ok = shoal_coverage_occurs(c, "feature", "partial prod");
    return ok;
  }
  if (cut->kind == SHOAL_CUT_FLAT) ok = shoal_coverage_occurs(c, "feature", "flat");
  if (cut->unit > 1) ok = ok && shoal_coverage_occurs(c, "feature", "unit");
  if (cut->chunk_count > 1) ok = ok && shoal_coverage_occurs(c, "feature", "chunk");
  if (cut->items != 0) ok = ok && shoal_coverage_occurs(c, "feature", "items");
  if (cut->weights) ok = ok && shoal_coverage_occurs(c, "feature", "weights");
  if (cut->before > 0 || cut->after > 0) ok = ok && shoal_coverage_occurs(c, "feature", "halo");
  if (cut->before < 0 || cut->after < 0) ok = ok && shoal_coverage_occurs(c, "feature", "trim");
  return ok;
}

// Do parts differ in size, is one empty?
static shoal_status_t add_sizes(shoal_coverage_t *c, const shoal_buffer_t *buffer, int64_t micro,
                                shoal_arena_t *arena) {
  bool in_loop = false;
  for (int32_t i = 0; i < buffer->layout->cut_count; ++i)
    in_loop |= buffer->layout->cuts[i].axis == SHOAL_AXIS_MICRO;
  int64_t least = INT64_MAX, most = 0, first = 0, last = 0;
  for (int64_t m = 0; m < (in_loop ? micro : 1); ++m)
    for (int64_t p = 0; p < shoal_mesh_size(buffer->layout->mesh); ++p) {
      shoal_boxes_t boxes;
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(buffer->layout, &buffer->type.shape, p,
                                               in_loop ? m : -1, arena, &boxes));
      shoal_shape_t shape = shoal_boxes_shape(&boxes);
      int64_t count = shoal_shape_count(&shape);
      if (count < least) least = count;
      if (count > most) most = count;
      if (p == 0) *(m == 0 ? &first : &last) = count;
    }
  bool ok = true;
  if (least < most) ok = shoal_coverage_occurs(c, "feature", "uneven");
  if (least == 0 && most > 0) ok = ok && shoal_coverage_occurs(c, "feature", "empty part");
  if (in_loop && micro > 1 && last != first)
    ok = ok && shoal_coverage_occurs(c, "feature", "uneven micro");
  return ok ? NULL : SHOAL_OOM();
}

// ---- time ---------------------------------------------------------------------------------------

static bool lies_over_an_input(const shoal_class_t *class, const shoal_instruction_t *in) {
  const shoal_buffer_t *to = &class->buffers[in->outputs[0]];
  bool over = false;
  for (int32_t i = 0; i < in->input_count && to->bytes > 0; ++i)
    over |= class->buffers[in->inputs[i]].offset == to->offset;
  return over;
}

// Outputs that are kept to be fetched on request.
static bool add_kept(shoal_coverage_t *c, const shoal_class_t *class,
                     const shoal_instruction_t *in) {
  if (in->opcode != SHOAL_OPCODE_COPY) return shoal_coverage_occurs(c, "feature", "kept in place");
  const bool piece = shoal_program_has_micro(class->buffers[in->inputs[0]].layout);
  return shoal_coverage_occurs(c, "feature", piece ? "kept in micro-batches" : "kept copy");
}

// What was computed or gathered in tiles.
static bool add_tiles(shoal_coverage_t *c, const shoal_class_t *class,
                      const shoal_instruction_t *in) {
  const shoal_layout_t *layout = class->buffers[in->inputs[0]].layout;
  const bool gradient = strncmp(in->name, "grad/", 5) == 0;
  return (!gradient || shoal_coverage_occurs(c, "feature", "gradient in tiles")) &&
         (!shoal_layout_along(layout, SHOAL_AXIS_MICRO) ||
          shoal_coverage_occurs(c, "feature", "tiles in a loop")) &&
         (layout->tile.cut.chunks[0].length == 0 ||
          shoal_coverage_occurs(c, "feature", "tiles of unequal parts"));
}

static bool add_instruction(shoal_coverage_t *c, const shoal_program_t *program,
                            const shoal_class_t *class, const shoal_instruction_t *in) {
  const char *exchange = shoal_exchange_feature(program, class, in);
  if (exchange) return shoal_coverage_occurs(c, "feature", exchange);
  if (in->predicate >= 0) {
    const bool copy = in->opcode == SHOAL_OPCODE_COPY;
    return shoal_coverage_occurs(c, "feature", copy ? "guarded copy" : "guarded in place");
  }
  if (in->opcode == SHOAL_OPCODE_ASSEMBLE && class->buffers[in->inputs[0]].layout->tile.count > 0)
    return add_tiles(c, class, in);
  if (in->opcode == SHOAL_OPCODE_ASSEMBLE) {
    const bool gradient = strncmp(in->name, "grad/", 5) == 0;
    return shoal_coverage_occurs(c, "feature",
                                 gradient ? "gradient split for a halo" : "split for a halo");
  }
  const int32_t to = in->output_count > 0 ? in->outputs[0] : -1;
  if (to >= 0 && class->buffers[to].state >= 0 &&
      shoal_program_kept_in(program, class->buffers[to].state))
    return add_kept(c, class, in);
  if (in->opcode == SHOAL_OPCODE_COPY && class->buffers[to].kind == SHOAL_BUFFER_STATE)
    return shoal_coverage_occurs(c, "feature", "state copied");
  if (in->opcode != SHOAL_OPCODE_COMPUTE || !lies_over_an_input(class, in)) return true;
  const bool next = class->buffers[in->outputs[0]].kind == SHOAL_BUFFER_NEXT;
  return shoal_coverage_occurs(c, "feature", next ? "state in place" : "in place");
}

static bool add_order(shoal_coverage_t *c, const shoal_order_t *order) {
  bool ok = true;
  for (int64_t k = 0; k < order->call_count; ++k)
    for (int32_t i = 0; i < order->calls[k].wait_count && ok; ++i)
      ok = shoal_coverage_occurs(
          c, "feature", order->calls[k].waits[i].back > k ? "wait for a step" : "wait for a call");
  return ok;
}

// Is the value of this instruction made by an earlier one of the order, too, in the same layout?
static bool is_made_before(const shoal_class_t *class, const shoal_order_t *order, int64_t calls,
                           const shoal_instruction_t *in) {
  const shoal_buffer_t *made = &class->buffers[in->outputs[0]];
  for (int64_t k = 0; k <= calls; ++k) {
    const shoal_segment_t *segment = &class->segments[order->calls[k].segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *other = &segment->instructions[i];
      if (other == in) return false;
      if (other->opcode == in->opcode && other->outputs[0] >= 0 && other->outputs != in->outputs &&
          class->buffers[other->outputs[0]].layout == made->layout &&
          class->buffers[other->outputs[0]].type.dtype == made->type.dtype &&
          strcmp(class->buffers[other->outputs[0]].name, made->name) == 0)
        return true;
    }
  }
  return false;
}

// What a class makes a second time in a step: nodes that are recomputed, copies that are redone.
static bool add_again(shoal_coverage_t *c, const shoal_class_t *class, const shoal_order_t *order) {
  bool ok = true;
  for (int64_t k = 0; k < order->call_count && ok; ++k) {
    if (order->calls[k].micro > 0) continue;
    const shoal_segment_t *segment = &class->segments[order->calls[k].segment];
    for (int64_t i = 0; i < segment->instruction_count && ok; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      const bool computes = in->opcode == SHOAL_OPCODE_COMPUTE;
      if ((!computes && in->opcode != SHOAL_OPCODE_RESHARD) || in->outputs[0] < 0) continue;
      if (is_made_before(class, order, k, in))
        ok = shoal_coverage_occurs(c, "feature", computes ? "recomputed" : "redone");
    }
  }
  return ok;
}

static bool add_outputs(shoal_coverage_t *c, const shoal_program_t *program) {
  bool ok = true;
  for (int64_t i = 0; i < program->output_count && ok; ++i)
    if (program->outputs[i].on_request)
      ok = shoal_coverage_occurs(c, "feature", "output on request");
  return ok;
}

static bool add_time(shoal_coverage_t *c, const shoal_program_t *program,
                     const shoal_class_t *class) {
  bool ok = true;
  for (int32_t g = 0; g < class->slot_group_count && ok; ++g)
    if (class->slot_groups[g].slots > 1)
      ok = shoal_coverage_occurs(c, "feature",
                                 class->slot_groups[g].by_step ? "slots by step" : "slots");
  for (int64_t s = 0; s < class->segment_count; ++s)
    for (int64_t i = 0; i < class->segments[s].instruction_count && ok; ++i)
      ok = add_instruction(c, program, class, &class->segments[s].instructions[i]);
  for (int64_t i = 0; i < class->order_count && ok; ++i)
    ok = add_order(c, &class->orders[i]) && add_again(c, class, &class->orders[i]);
  return ok;
}

static bool add_memory(shoal_coverage_t *c, const shoal_buffer_t *buffer) {
  const bool state = buffer->kind == SHOAL_BUFFER_STATE;
  if (buffer->memory == SHOAL_MEMORY_DEVICE) return true;
  if (buffer->memory == SHOAL_MEMORY_HOST)
    return shoal_coverage_occurs(c, "feature",
                                 state ? "state in host memory" : "value in host memory");
  return shoal_coverage_occurs(c, "feature", state ? "state in a file" : "value in a file");
}

// Parts of a value and its log-sum-exp, before they are merged: each rank's is cut along dim 0.
static bool add_pair(shoal_coverage_t *c, const shoal_buffer_t *buffer) {
  int32_t axes = 0;
  for (int32_t i = 0; i < buffer->layout->cut_count && buffer->parts; ++i)
    axes += buffer->layout->cuts[i].kind == SHOAL_CUT_DIM && buffer->layout->cuts[i].dim == 0;
  if (axes == 0) return true;
  const bool micro = shoal_layout_along(buffer->layout, SHOAL_AXIS_MICRO) != NULL;
  return shoal_coverage_occurs(c, "feature", "pair merged") &&
         (axes < 2 || shoal_coverage_occurs(c, "feature", "pair merged over two axes")) &&
         (!micro || shoal_coverage_occurs(c, "feature", "pair merged in micro-batches"));
}

shoal_status_t shoal_coverage_program(shoal_coverage_t *c, const shoal_program_t *program,
                                      shoal_arena_t *arena) {
  for (int64_t k = 0; k < program->class_count; ++k) {
    const shoal_class_t *class = &program->classes[k];
    bool works = false;
    for (int64_t b = 0; b < class->buffer_count; ++b) {
      const shoal_buffer_t *buffer = &class->buffers[b];
      for (int32_t i = 0; i < buffer->layout->cut_count; ++i)
        if (!add_cut(c, &buffer->layout->cuts[i])) return SHOAL_OOM();
      SHOAL_RETURN_IF_ERROR(add_sizes(c, buffer, program->micro, arena));
      if (!add_memory(c, buffer) || !add_pair(c, buffer)) return SHOAL_OOM();
    }
    for (int64_t s = 0; s < class->segment_count; ++s)
      for (int64_t i = 0; i < class->segments[s].instruction_count; ++i) {
        const shoal_op_t *op = class->segments[s].instructions[i].op;
        if (op && !shoal_coverage_occurs(c, "op", op->name)) return SHOAL_OOM();
        works |= op != NULL;
      }
    if (!works && !shoal_coverage_occurs(c, "feature", "idle rank")) return SHOAL_OOM();
    if (!add_time(c, program, class)) return SHOAL_OOM();
  }
  for (int64_t i = 0; i < program->channel_count; ++i) {
    const shoal_channel_t *channel = &program->channels[i];
    shoal_reshard_facts_t reshard;
    int64_t micro = channel->micro ? 0 : -1;
    SHOAL_RETURN_IF_ERROR(shoal_reshard_describe(channel->src, micro, channel->dst, micro,
                                                 &channel->type.shape, arena->allocator, &reshard));
    if (!shoal_coverage_occurs(c, "reshard", shoal_reshard_name(reshard.kind))) return SHOAL_OOM();
  }
  return add_outputs(c, program) ? NULL : SHOAL_OOM();
}
