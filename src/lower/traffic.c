// What a rank sends to others in a step, by value, collective and axis; read off the program. The
// bytes are those that have to leave it: of an all-reduce, what a reduce-scatter and an all-gather
// of even shares send; of all else, what lies in its part and is needed elsewhere, once for each
// rank that needs it. Backends may send more (a ring of odd sizes) and hardware less (multicast).
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "layout/motion.h"
#include "lower/account.h"
#include "plan/plan.h"
#include "program/program_impl.h"

typedef struct traffic {
  shoal_account_t account;
  int32_t rank;
  shoal_arena_t *arena;  // of what comes out
  shoal_index_t index;
  SHOAL_VEC(shoal_traffic_row_t) rows;
} traffic_t;

// ---- bytes ----------------------------------------------------------------------------

// The number of the rank among those with which it exchanges along these axes.
static int64_t number_of(const shoal_mesh_t *mesh, const shoal_reshard_facts_t *facts,
                         int64_t position) {
  int64_t number = 0, scale = 1;
  for (int32_t a = mesh->axis_count; a-- > 0;) {
    const int64_t size = mesh->axes[a].size, coordinate = position % size;
    position /= size;
    if (!facts->axes[a]) continue;
    number += coordinate * scale;
    scale *= size;
  }
  return number;
}

static shoal_status_t elements_sent(const traffic_t *t, const shoal_channel_t *channel,
                                    int64_t micro, const shoal_reshard_facts_t *facts,
                                    int64_t *out_count) {
  const shoal_shape_t *shape = &channel->type.shape;
  const int64_t from = shoal_program_micro_of(channel->src, micro);
  const int64_t to = shoal_program_micro_of(channel->dst, micro);
  *out_count = 0;
  if (facts->kind == SHOAL_RESHARD_ALL_REDUCE) {
    const shoal_mesh_t *mesh = channel->dst->mesh;
    const int64_t position = shoal_mesh_position(mesh, t->rank);
    if (position < 0 || facts->group < 2) return NULL;
    shoal_boxes_t boxes;
    SHOAL_RETURN_IF_ERROR(
        shoal_layout_boxes(channel->dst, shape, position, to, t->account.scratch, &boxes));
    const shoal_shape_t part = shoal_boxes_shape(&boxes);
    const int64_t count = shoal_shape_count(&part), n = facts->group;
    const int64_t share = count / n + (number_of(mesh, facts, position) < count % n);
    *out_count = count - share + share * (n - 1);
    return NULL;
  }
  shoal_links_t links;
  SHOAL_RETURN_IF_ERROR(shoal_links_list(channel->src, from, channel->dst, to, shape, t->rank,
                                         t->account.scratch, &links));
  for (int64_t i = 0; i < links.count; ++i)
    if (links.items[i].from == t->rank && links.items[i].to != t->rank)
      *out_count += links.items[i].count;
  return NULL;
}

// ---- which pass it belongs to -----------------------------------------------------------

// Who reads the buffer first, behind instruction `at`.
static shoal_origin_t reader_of(const traffic_t *t, const shoal_segment_t *segment, int64_t at,
                                int32_t buffer) {
  for (int64_t i = at + 1; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k)
      if (in->inputs[k] == buffer && in->opcode == SHOAL_OPCODE_COMPUTE)
        return shoal_account_node(&t->account, in->name);
  }
  return SHOAL_ORIGIN_UNKNOWN;
}

static shoal_traffic_pass_t pass_of(const traffic_t *t, const shoal_segment_t *segment, int64_t at,
                                    int32_t i) {
  const shoal_instruction_t *in = &segment->instructions[at];
  const shoal_buffer_t *buffers = t->account.rank_class->buffers;
  const int32_t output = in->outputs[i], any = in->inputs[i] >= 0 ? in->inputs[i] : output;
  if (output >= 0 && buffers[output].kind == SHOAL_BUFFER_NEXT) return SHOAL_TRAFFIC_UPDATE;
  shoal_origin_t origin = shoal_account_value(&t->account, buffers[any].name);
  if (origin == SHOAL_ORIGIN_UNKNOWN && strncmp(buffers[any].name, "grad/", 5) == 0)
    origin = SHOAL_ORIGIN_GRADIENT;
  if (origin == SHOAL_ORIGIN_GRADIENT) return SHOAL_TRAFFIC_BACKWARD;
  if (origin == SHOAL_ORIGIN_UPDATE) return SHOAL_TRAFFIC_UPDATE;
  const shoal_origin_t reader =
      output >= 0 ? reader_of(t, segment, at, output) : SHOAL_ORIGIN_UNKNOWN;
  if (reader == SHOAL_ORIGIN_GRADIENT) return SHOAL_TRAFFIC_BACKWARD;
  return reader == SHOAL_ORIGIN_UPDATE ? SHOAL_TRAFFIC_UPDATE : SHOAL_TRAFFIC_FORWARD;
}

// ---- rows -----------------------------------------------------------------------------

// "tensor", "data,tensor"; between meshes their names.
static shoal_status_t axes_text(traffic_t *t, const shoal_channel_t *channel,
                                const shoal_reshard_facts_t *facts, const char **out_text) {
  const shoal_mesh_t *src = channel->src->mesh, *dst = channel->dst->mesh;
  char *text = "";
  if (src != dst) {
    text = shoal_arena_printf(t->arena, "%s>%s", src->name, dst->name);
  } else {
    for (int32_t a = 0; a < src->axis_count && text; ++a)
      if (facts->axes[a])
        text = shoal_arena_printf(t->arena, "%s%s%s", text, text[0] ? "," : "", src->axes[a].name);
  }
  *out_text = text;
  return text ? NULL : SHOAL_OOM();
}

static bool alike(const shoal_traffic_row_t *a, const shoal_traffic_row_t *b) {
  return a->pass == b->pass && a->kind == b->kind && a->bounded == b->bounded &&
         strcmp(a->axes, b->axes) == 0 && strcmp(a->name, b->name) == 0;
}

static shoal_status_t add_row(traffic_t *t, const shoal_traffic_row_t *row) {
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, row->name);
  for (int64_t at = -1, r; (r = shoal_index_next(&t->index, hash, &at)) >= 0;) {
    shoal_traffic_row_t *found = &t->rows.items[r];
    if (!alike(found, row)) continue;
    found->count += row->count;
    found->calls += row->calls;
    found->bytes += row->bytes;
    return NULL;
  }
  shoal_traffic_row_t copy = *row;
  copy.name = shoal_arena_printf(t->arena, "%s", row->name);
  if (!copy.name || !shoal_index_add(&t->index, hash, t->rows.count) ||
      !SHOAL_PUSH(t->account.scratch, &t->rows, copy))
    return SHOAL_OOM();
  return NULL;
}

static shoal_status_t add_channel(traffic_t *t, const shoal_segment_call_t *call, int64_t at,
                                  int32_t i) {
  const shoal_class_t *class = t->account.rank_class;
  const shoal_segment_t *segment = &class->segments[call->segment];
  const shoal_instruction_t *in = &segment->instructions[at];
  const shoal_channel_t *channel = &t->account.program->channels[in->channels[i]];
  shoal_reshard_facts_t facts;
  int64_t count;
  SHOAL_RETURN_IF_ERROR(
      shoal_channel_describe(channel, call->micro, t->account.scratch->allocator, &facts));
  if (facts.kind == SHOAL_RESHARD_NONE || facts.kind == SHOAL_RESHARD_SLICE) return NULL;
  SHOAL_RETURN_IF_ERROR(elements_sent(t, channel, call->micro, &facts, &count));
  const int32_t buffer = in->inputs[i] >= 0 ? in->inputs[i] : in->outputs[i];
  shoal_traffic_row_t row = {.pass = pass_of(t, segment, at, i),
                             .kind = facts.kind,
                             .bounded = in->opcode == SHOAL_OPCODE_EXCHANGE,
                             .name = class->buffers[buffer].name,
                             .count = 1,
                             .calls = i == 0};
  SHOAL_RETURN_IF_ERROR(axes_text(t, channel, &facts, &row.axes));
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(channel->type.dtype, count, &row.bytes));
  return add_row(t, &row);
}

static shoal_status_t walk(traffic_t *t, int64_t *out_count, const shoal_traffic_row_t **out_rows) {
  const shoal_order_t *order = t->account.order;
  for (int64_t c = 0; c < order->call_count; ++c) {
    const shoal_segment_t *segment = &t->account.rank_class->segments[order->calls[c].segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      for (int32_t k = 0; in->channels && k < shoal_instruction_channels(in); ++k)
        SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(add_channel(t, &order->calls[c], i, k),
                                                     "while counting '%s'", in->name));
    }
  }
  *out_count = t->rows.count;
  *out_rows =
      shoal_arena_copy(t->arena, t->rows.items, (size_t)t->rows.count, sizeof *t->rows.items);
  return *out_rows || t->rows.count == 0 ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_lower_traffic(const shoal_plan_t *plan, const shoal_program_t *program,
                                   const char *graph, int32_t rank, shoal_arena_t *arena,
                                   int64_t *out_count, const shoal_traffic_row_t **out_rows) {
  *out_count = 0;
  *out_rows = NULL;
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  traffic_t t = {.rank = rank, .arena = arena};
  shoal_status_t status =
      shoal_account_open(plan, program, graph ? graph : "train", rank, &scratch, &t.account);
  shoal_index_init(&scratch, &t.index);
  if (!status) status = walk(&t, out_count, out_rows);
  shoal_arena_deinit(&scratch);
  return status;
}

const char *shoal_traffic_pass_name(shoal_traffic_pass_t pass) {
  static const char *const names[] = {"forward", "backward", "update"};
  return pass < SHOAL_TRAFFIC_PASS_COUNT ? names[pass] : NULL;
}
