// Prices: how long each instruction of a segment takes on an actor's device. Local parts are worked
// out as binding does, of a few ranks of the actor that may have the largest parts, and the longest
// time counts. Micro-batches with parts of the same size are priced once.
#include <string.h>

#include "program/bind.h"
#include "program/program_impl.h"
#include "simulate/simulate_impl.h"

// ---- micro-batches --------------------------------------------------------------------

// Cuts along micro that differ, and the length that each cuts.
typedef struct micro_cut {
  shoal_cut_t cut;
  int64_t length;
} micro_cut_t;

typedef SHOAL_VEC(micro_cut_t) micro_cuts_t;

static bool same_cut(const micro_cut_t *a, const micro_cut_t *b) {
  const shoal_cut_t *x = &a->cut, *y = &b->cut;
  if (a->length != b->length || x->unit != y->unit || x->items != y->items ||
      x->before != y->before || x->after != y->after || x->weights != y->weights ||
      x->chunk_count != y->chunk_count) {
    return false;
  }
  for (int32_t i = 0; i < x->chunk_count; ++i) {
    if (x->chunks[i].length != y->chunks[i].length || x->chunks[i].unit != y->chunks[i].unit) {
      return false;
    }
  }
  return true;
}

static shoal_status_t add_cuts(const shoal_layout_t *layout, const shoal_shape_t *shape,
                               shoal_arena_t *arena, micro_cuts_t *cuts) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    micro_cut_t found = {.cut = layout->cuts[i]};
    if (found.cut.axis != SHOAL_AXIS_MICRO || found.cut.kind == SHOAL_CUT_PARTIAL) continue;
    found.length =
        found.cut.kind == SHOAL_CUT_FLAT ? shoal_shape_count(shape) : shape->dims[found.cut.dim];
    found.cut.kind = SHOAL_CUT_DIM;
    found.cut.dim = 0;
    bool known = false;
    for (int64_t k = 0; k < cuts->count && !known; ++k) known = same_cut(&cuts->items[k], &found);
    if (!known && !SHOAL_PUSH(arena, cuts, found)) return SHOAL_OOM();
  }
  return NULL;
}

shoal_status_t shoal_sim_find_variants(shoal_sim_t *sim) {
  const shoal_program_t *program = sim->program;
  const int64_t micros = program->micro;
  micro_cuts_t cuts = {0};
  for (int64_t c = 0; c < program->class_count; ++c) {
    for (int64_t b = 0; b < program->classes[c].buffer_count; ++b) {
      const shoal_buffer_t *buffer = &program->classes[c].buffers[b];
      SHOAL_RETURN_IF_ERROR(add_cuts(buffer->layout, &buffer->type.shape, sim->arena, &cuts));
    }
  }
  sim->variants = SHOAL_NEW(sim->arena, int32_t, micros + 1);
  sim->variant_micros = SHOAL_NEW(sim->arena, int32_t, micros + 1);
  int64_t *sizes = SHOAL_NEW(sim->arena, int64_t, (micros + 1) * (cuts.count + 1));
  if (!sim->variants || !sim->variant_micros || !sizes) return SHOAL_OOM();
  sim->variant_micros[0] = -1;
  sim->variant_count = 1;
  shoal_mesh_t mesh = {.micro = micros};
  for (int64_t m = 0; m < micros; ++m) {
    int64_t *mine = sizes + m * cuts.count;
    for (int64_t k = 0; k < cuts.count; ++k) {
      shoal_layout_t layout = {.mesh = &mesh, .cut_count = 1, .cuts = {cuts.items[k].cut}};
      const shoal_shape_t shape = {.rank = 1, .dims = {cuts.items[k].length}};
      shoal_boxes_t boxes;
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&layout, &shape, 0, m, sim->arena, &boxes));
      mine[k] = boxes.dims[0].held_size;
    }
    int32_t v = 1;
    while (v < sim->variant_count && memcmp(sizes + sim->variant_micros[v] * cuts.count, mine,
                                            sizeof *mine * (size_t)cuts.count) != 0) {
      ++v;
    }
    if (v == sim->variant_count) sim->variant_micros[sim->variant_count++] = (int32_t)m;
    sim->variants[m + 1] = v;
  }
  return NULL;
}

// ---- which ranks ----------------------------------------------------------------------

enum { MOST_SAMPLES = 2 + 2 * SHOAL_MAX_AXES };

typedef struct samples {
  int32_t count;
  int32_t ranks[MOST_SAMPLES];
} samples_t;

static void add_sample(const shoal_sim_actor_t *actor, const shoal_sim_t *sim, int32_t rank,
                       samples_t *samples) {
  const shoal_cluster_nodes_t *nodes = shoal_cluster_group(sim->cluster, rank);
  if (strcmp(nodes->device.name, actor->nodes->device.name) != 0) return;
  bool known = !shoal_sim_has_rank(actor->rank_class, rank);
  for (int32_t i = 0; i < samples->count; ++i) known |= samples->ranks[i] == rank;
  if (!known && samples->count < MOST_SAMPLES) samples->ranks[samples->count++] = rank;
}

static int64_t heaviest(const shoal_cut_t *cut, int64_t size) {
  int64_t best = 0;
  for (int64_t i = 1; i < size; ++i) {
    if (cut->weights[i] > cut->weights[best]) best = i;
  }
  return best;
}

// Balanced parts are largest on the first rank; a halo is widest on the second, which has
// neighbours on both sides; weights say themselves who has most.
static void find_samples(const shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                         samples_t *out_samples) {
  *out_samples = (samples_t){.count = 1, .ranks = {actor->first_rank}};
  const shoal_mesh_t *seen = NULL;
  for (int64_t b = 0; b < actor->rank_class->buffer_count; ++b) {
    const shoal_layout_t *layout = actor->rank_class->buffers[b].layout;
    const shoal_mesh_t *mesh = layout->mesh;
    const int64_t at = shoal_mesh_position(mesh, actor->first_rank);
    for (int32_t i = 0; i < layout->cut_count && at >= 0; ++i) {
      const shoal_cut_t *cut = &layout->cuts[i];
      const bool halo = cut->before > 0 || cut->after > 0;
      if (cut->axis < 0 || cut->kind == SHOAL_CUT_PARTIAL || (!halo && !cut->weights)) continue;
      if (seen == mesh && !cut->weights) continue;
      int64_t coords[SHOAL_MAX_AXES];
      const int64_t size = mesh->axes[cut->axis].size;
      shoal_mesh_coords(mesh, at, coords);
      coords[cut->axis] = cut->weights ? heaviest(cut, size) : (size > 1 ? 1 : 0);
      add_sample(actor, sim, shoal_mesh_rank(mesh, shoal_mesh_at(mesh, coords)), out_samples);
      if (!cut->weights) seen = mesh;
    }
  }
}

// ---- instructions ---------------------------------------------------------------------

typedef struct pricer {
  const shoal_sim_t *sim;
  const shoal_sim_actor_t *actor;
  int32_t rank, micro;
  shoal_arena_t *scratch;
  const shoal_bound_buffer_t **parts;  // of each buffer, when asked
} pricer_t;

// NULL where the rank is not on the buffer's mesh, or there is no buffer.
static shoal_status_t part_of(pricer_t *p, int32_t index, const shoal_bound_buffer_t **out_part) {
  *out_part = NULL;
  if (index < 0) return NULL;
  const shoal_buffer_t *buffer = &p->actor->rank_class->buffers[index];
  if (!p->parts[index]) {
    if (shoal_mesh_position(buffer->layout->mesh, p->rank) < 0) return NULL;
    shoal_bound_buffer_t *part = SHOAL_NEW(p->scratch, shoal_bound_buffer_t, 1);
    if (!part) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(
        shoal_buffer_bind(p->actor->rank_class, buffer, p->rank, p->micro, 0, p->scratch, part));
    p->parts[index] = part;
  }
  *out_part = p->parts[index];
  return NULL;
}

static double bytes_of(const shoal_bound_buffer_t *part) {
  return part ? (double)part->count * (double)shoal_dtype_size(part->type.dtype) : 0;
}

static shoal_status_t price_compute(pricer_t *p, const shoal_instruction_t *in,
                                    double *out_seconds) {
  const int32_t count = in->input_count + in->output_count;
  shoal_boxes_t *boxes = SHOAL_NEW(p->scratch, shoal_boxes_t, count);
  shoal_type_t *types = SHOAL_NEW(p->scratch, shoal_type_t, count);
  shoal_attr_value_t *attrs = SHOAL_NEW(p->scratch, shoal_attr_value_t, in->op->attr_count);
  if (!boxes || !types || !attrs) return SHOAL_OOM();
  for (int32_t i = 0; i < count; ++i) {
    const shoal_bound_buffer_t *part;
    SHOAL_RETURN_IF_ERROR(
        part_of(p, i < in->input_count ? in->inputs[i] : in->outputs[i - in->input_count], &part));
    if (!part) return NULL;  // idle on this rank
    boxes[i] = part->boxes;
    types[i] = part->type;
  }
  SHOAL_RETURN_IF_ERROR(shoal_op_bind(in->op, in->input_count, in->attrs, boxes,
                                      boxes + in->input_count, p->scratch, attrs));
  const shoal_call_t call = {.op = in->op,
                             .input_count = in->input_count,
                             .output_count = in->output_count,
                             .inputs = types,
                             .outputs = types + in->input_count,
                             .attrs = attrs};
  *out_seconds = shoal_target_seconds(&p->actor->target, &call);
  return NULL;
}

// A copy from or to memory beside the device's: over the link to the host, and to the disk.
static double price_offload(const pricer_t *p, const shoal_instruction_t *in, double bytes) {
  const shoal_buffer_t *buffers = p->actor->rank_class->buffers;
  const shoal_memory_kind_t from = buffers[in->inputs[0]].memory;
  const shoal_memory_kind_t to = buffers[in->outputs[0]].memory;
  const shoal_cluster_device_t *device = &p->actor->nodes->device;
  const bool link = from == SHOAL_MEMORY_DEVICE || to == SHOAL_MEMORY_DEVICE;
  const int files = (from == SHOAL_MEMORY_FILE) + (to == SHOAL_MEMORY_FILE);
  return (link ? bytes / device->host_bandwidth : 0) + files * bytes / device->disk_bandwidth;
}

static bool is_offload(const pricer_t *p, const shoal_instruction_t *in) {
  const shoal_buffer_t *buffers = p->actor->rank_class->buffers;
  return in->opcode == SHOAL_OPCODE_COPY && (buffers[in->inputs[0]].memory != SHOAL_MEMORY_DEVICE ||
                                             buffers[in->outputs[0]].memory != SHOAL_MEMORY_DEVICE);
}

static shoal_status_t price(pricer_t *p, const shoal_instruction_t *in, double *out_seconds) {
  *out_seconds = 0;
  if (in->channels) return NULL;  // flow.c
  if (in->opcode == SHOAL_OPCODE_COMPUTE) return price_compute(p, in, out_seconds);
  double bytes = 0;
  for (int32_t i = 0; i < in->input_count + in->output_count; ++i) {
    const shoal_bound_buffer_t *part;
    SHOAL_RETURN_IF_ERROR(
        part_of(p, i < in->input_count ? in->inputs[i] : in->outputs[i - in->input_count], &part));
    bytes += bytes_of(part);
  }
  *out_seconds = is_offload(p, in) ? price_offload(p, in, bytes / 2)
                                   : bytes / p->actor->target.bytes_per_second;
  return NULL;
}

static shoal_status_t price_segment(shoal_sim_t *sim, const shoal_sim_actor_t *actor,
                                    int32_t segment, int32_t micro, double *seconds) {
  const shoal_segment_t *list = &actor->rank_class->segments[segment];
  samples_t samples;
  find_samples(sim, actor, &samples);
  for (int32_t s = 0; s < samples.count; ++s) {
    shoal_arena_t scratch;
    shoal_arena_init(sim->arena->allocator, &scratch);
    pricer_t p = {.sim = sim,
                  .actor = actor,
                  .rank = samples.ranks[s],
                  .micro = micro,
                  .scratch = &scratch,
                  .parts = SHOAL_NEW(&scratch, const shoal_bound_buffer_t *,
                                     actor->rank_class->buffer_count)};
    shoal_status_t status = p.parts ? NULL : SHOAL_OOM();
    for (int64_t i = 0; i < list->instruction_count && !status; ++i) {
      double one;
      status = price(&p, &list->instructions[i], &one);
      if (!status && one > seconds[i]) seconds[i] = one;
    }
    shoal_arena_deinit(&scratch);
    if (status) return shoal_status_annotatef(status, "while pricing segment '%s'", list->name);
  }
  for (int64_t i = 0; i < list->instruction_count && sim->times; ++i) {
    double measured;
    if (shoal_times_find(sim->times, actor->class_index, list->name, i, &measured)) {
      seconds[i] = measured;
    }
  }
  return NULL;
}

shoal_status_t shoal_sim_segment(shoal_sim_t *sim, int64_t actor, int32_t segment, int32_t variant,
                                 const double **out_seconds) {
  const shoal_sim_actor_t *who = &sim->actors[actor];
  if (!sim->seconds[actor]) {
    sim->seconds[actor] =
        SHOAL_NEW(sim->arena, double *, who->rank_class->segment_count * sim->variant_count);
    if (!sim->seconds[actor]) return SHOAL_OOM();
  }
  double **entry = &sim->seconds[actor][(int64_t)segment * sim->variant_count + variant];
  if (!*entry) {
    *entry = SHOAL_NEW(sim->arena, double, who->rank_class->segments[segment].instruction_count);
    if (!*entry) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(price_segment(sim, who, segment, sim->variant_micros[variant], *entry));
  }
  *out_seconds = *entry;
  return NULL;
}
