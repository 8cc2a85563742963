// Taps: what an instruction wrote is brought to the host right behind it, on its own queue, and
// shown. Whoever overwrites the value waits for the instruction, and so for its tap.
#include "base/dtype.h"
#include "base/status.h"
#include "run/run_impl.h"

shoal_status_t shoal_run_taps_init(shoal_runner_t *runner) {
  if (!runner->options.tap) return NULL;
  const shoal_class_t *rank_class = runner->bound.rank_class;
  int64_t most = 1;
  for (int64_t i = 0; i < rank_class->buffer_count; ++i) {
    if (rank_class->buffers[i].bytes > most) most = rank_class->buffers[i].bytes;
  }
  for (int32_t q = 0; q < rank_class->queue_count; ++q) {
    if (!runner->queues[q]) continue;
    runner->tap_data[q] = shoal_arena_alloc(&runner->arena, (size_t)most, 1);
    if (!runner->tap_data[q]) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_run_tap_init(shoal_runner_t *runner, const char *graph, int32_t micro,
                                  shoal_action_t *action) {
  const shoal_bound_instruction_t *bound = action->bound;
  const shoal_instruction_t *in = bound->instruction;
  if (!runner->options.tap || bound->idle) return NULL;
  action->taps = SHOAL_NEW(&runner->arena, shoal_run_tap_t, in->output_count);
  if (!action->taps) return SHOAL_OOM();
  for (int32_t i = 0; i < in->output_count; ++i) {
    const shoal_bound_buffer_t *part = bound->outputs[i];
    if (!part || in->outputs[i] < 0) continue;
    // A temporary that a predicate decides about has the name of neither value surely: whoever
    // copies it on shows what it became.
    const shoal_buffer_t *to = &runner->bound.rank_class->buffers[in->outputs[i]];
    if (to->parts || (in->predicate >= 0 && to->kind == SHOAL_BUFFER_TEMP)) continue;
    action->taps[action->tap_count++] = (shoal_run_tap_t){
        .runner = runner,
        .graph = graph,
        .buffer = &runner->bound.rank_class->buffers[in->outputs[i]],
        .micro = micro,
        .part = part,
        .data = runner->tap_data[in->queue],
        .bytes = part->count * (int64_t)shoal_dtype_size(part->type.dtype),
    };
  }
  return NULL;
}

static shoal_status_t show(void *self) {
  const shoal_run_tap_t *tap = self;
  if (tap->part->memory != SHOAL_MEMORY_DEVICE)
    SHOAL_RETURN_IF_ERROR(shoal_run_part_read(tap->runner, tap->part, tap->bytes, tap->data));
  const shoal_runner_options_t *options = &tap->runner->options;
  shoal_mutex_lock(&tap->runner->tap_lock);
  options->tap(options->tap_self, tap->runner->rank, tap->graph, tap->buffer->name,
               tap->buffer->layout, &tap->buffer->type, tap->micro, tap->data, tap->bytes);
  shoal_mutex_unlock(&tap->runner->tap_lock);
  return NULL;
}

shoal_status_t shoal_run_tap(shoal_queue_t *queue, const shoal_action_t *action) {
  for (int32_t i = 0; i < action->tap_count; ++i) {
    shoal_run_tap_t *tap = &action->taps[i];
    const shoal_address_t address = tap->runner->memory + (shoal_address_t)tap->part->offset;
    if (tap->part->memory == SHOAL_MEMORY_DEVICE)
      SHOAL_RETURN_IF_ERROR(shoal_queue_download(queue, address, tap->data, tap->bytes));
    SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, show, tap));
  }
  return NULL;
}
