// Does a program fit into the memory that a rank may use? If not, what is missing, and what would
// help that the plan does not do yet.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/text.h"
#include "lower/build.h"
#include "plan/resolved.h"

// What of a class's memory is what.
typedef struct usage {
  int64_t states, shareable;  // bytes; those that other ranks of the mesh have, too
  bool moments, offloaded;    // some rest on the device; some state does not
} usage_t;

static usage_t count_usage(const shoal_class_t *ranks) {
  usage_t usage = {0};
  for (int64_t b = 0; b < ranks->buffer_count; ++b) {
    const shoal_buffer_t *buffer = &ranks->buffers[b];
    if (buffer->kind != SHOAL_BUFFER_STATE) continue;
    usage.offloaded |= buffer->memory != SHOAL_MEMORY_DEVICE;
    if (buffer->memory != SHOAL_MEMORY_DEVICE) continue;
    const int64_t whole =
        shoal_shape_count(&buffer->type.shape) * (int64_t)shoal_dtype_size(buffer->type.dtype);
    const int64_t part = whole / shoal_mesh_size(buffer->layout->mesh);
    usage.states += buffer->bytes;
    usage.moments |= strchr(buffer->name, '#') != NULL;
    if (buffer->bytes > part) usage.shareable += buffer->bytes - part;
  }
  return usage;
}

static bool recomputes(const shoal_plan_t *plan) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    for (int64_t n = 0; n < plan->graphs[g].graph->nodes.count; ++n)
      if (plan->graphs[g].regions && plan->graphs[g].regions[n] >= 0) return true;
  return false;
}

// Where states are the most of it, sharing them comes first; where values are, fewer at a time.
// What would give less than an eighth of what is missing is no advice: scalars rest everywhere.
static shoal_status_t suggest(const build_t *b, const shoal_class_t *ranks, const usage_t *usage,
                              int64_t missing, const char **out_hint) {
  const bool values = ranks->arena_bytes[SHOAL_MEMORY_DEVICE] > 2 * usage->states;
  shoal_text_t text;
  shoal_text_init(b->plan->allocator, &text);
  if (usage->shareable > usage->states / 4 && usage->shareable > missing / 8)
    shoal_text_add(&text, "share states out (strategy zero3, on an axis data), ");
  if (!recomputes(b->plan)) shoal_text_add(&text, "recompute (--decide 'recompute * yes'), ");
  if (usage->states > missing / 8)
    shoal_text_addf(&text, "keep %s elsewhere (--decide 'memory %s host'), ",
                    usage->moments     ? "moments"
                    : usage->offloaded ? "more states"
                                       : "states",
                    usage->moments ? "*#*" : "*");
  if (values)
    shoal_text_addf(&text, "use more micro-batches (micro=%lld), ", (long long)b->plan->micro * 2);
  shoal_text_add(&text, text.length > 0 ? "or use more ranks" : "use more ranks");
  return shoal_text_finish(&text, b->arena, out_hint);
}

shoal_status_t shoal_lower_limit(const build_t *b) {
  const int64_t allowed = b->options->memory;
  for (int64_t c = 0; c < b->program->class_count && allowed > 0; ++c) {
    const shoal_class_t *ranks = &b->program->classes[c];
    const int64_t needed = ranks->arena_bytes[SHOAL_MEMORY_DEVICE];
    if (needed <= allowed) continue;
    const usage_t usage = count_usage(ranks);
    const char *hint;
    shoal_bytes_text_t all, states, limit, missing;
    SHOAL_RETURN_IF_ERROR(suggest(b, ranks, &usage, needed - allowed, &hint));
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, hint,
        "rank %d needs %s of memory, %s of it for states, and may use %s: %s are missing (%lld "
        "bytes)",
        ranks->ranks[0], shoal_bytes_format((double)needed, &all),
        shoal_bytes_format((double)usage.states, &states),
        shoal_bytes_format((double)allowed, &limit),
        shoal_bytes_format((double)(needed - allowed), &missing), (long long)(needed - allowed));
  }
  return NULL;
}
