// Pass `buckets`: reshards of several values become one, where the sync decisions of their states
// say so. They are reductions of gradients, and gathers of states or of their next values.
//
// Members of a bucket are the same kind of communication of the same ranks, in the same segment. A
// bucket is open while it may still grow: then its members, and the updates that need them, wait.
// It is closed when the next member does not fit any more, when something else needs a value of it,
// or when the segment ends; and it stands where it is closed. Updates follow when the next one is
// closed, or at the end of the segment: at once they would hold up the queue that computes
// gradients. A value as large as a bucket goes alone, at once: packing it would cost more than it
// saves.
//
// A gather of a state can run as soon as the segment begins, so that its bucket stands where its
// first member is needed, and takes the others along.
//
// Items come behind those that make what they read, and what they write over must not be needed by
// one that waits.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "lower/build.h"
#include "plan/gradients.h"
#include "program/bind.h"
#include "program/program_impl.h"

// What the members of a bucket have in common.
typedef struct bucket_key {
  const shoal_mesh_t *mesh;
  int32_t lane, segment;
  bool micro, collective, gathers;
  shoal_side_t side;  // of gathers: what is redone is not kept from one side to the next
  shoal_reshard_kind_t kind;
  shoal_reduce_t reduce;
  shoal_dtype_t dtype;  // of what is reduced; else the first
  uint32_t axes;        // of a collective's group
  const char *name;     // NULL: by size
  int64_t limit;        // bytes; 0: none
} bucket_key_t;

typedef struct bucket {
  bucket_key_t key;
  bool open, waits;  // its members wait for it
  int64_t bytes;
  SHOAL_VEC(item_t *) members;
} bucket_t;

typedef struct pass {
  build_t *b;
  graph_build_t *graph;
  shoal_gradients_t *states;
  shoal_arena_t *arena;  // scratch
  held_t waiting;        // the items that wait
  int32_t *closed_in;    // by instance: the reduction that makes it, numbered from 1; 0: none
  int32_t closed;        // reductions so far
  bool ends;             // nothing lags any more
  SHOAL_VEC(item_t *) out;
  SHOAL_VEC(item_t *) late;
  SHOAL_VEC(bucket_t *) buckets;  // of the segment, in the order in which they were opened
  bool *taken;                    // by place in the list: a bucket has it already
} pass_t;

// ---- candidates -----------------------------------------------------------------------

static bool has_micro_cut(const shoal_layout_t *layout) {
  const shoal_cut_t *cut = shoal_layout_along(layout, SHOAL_AXIS_MICRO);
  return cut && cut->kind != SHOAL_CUT_PARTIAL;
}

static bool has_bucket(const shoal_sync_t *sync) {
  return sync->bucket || sync->bucket_bytes > 0;
}

// What goes together is the same in all micro-batches: their rows are in no gradient.
static bool may_join(const pass_t *p, const item_t *item) {
  if (item->code.opcode != SHOAL_OPCODE_RESHARD || item->code.input_count != 1) return false;
  const shoal_channel_t *channel = &p->b->channels.items[item->code.channels[0]];
  return channel->src->mesh == channel->dst->mesh && item->segment == item->send_segment &&
         !has_micro_cut(channel->src) && !has_micro_cut(channel->dst);
}

// Says whether the item belongs in a bucket, and in which.
static shoal_status_t find_key(const pass_t *p, const item_t *item, bool *out_found,
                               bucket_key_t *out_key) {
  const build_t *b = p->b;
  *out_found = false;
  if (!may_join(p, item)) return NULL;
  const int32_t value = instance_at(b, item->code.inputs[0])->value;
  if (value < 0) return NULL;
  const shoal_channel_t *channel = &b->channels.items[item->code.channels[0]];
  const int32_t gradient = shoal_gradients_state(p->states, value);
  const int32_t copy = shoal_gradients_copied_state(p->states, value);
  const int32_t state = gradient >= 0 ? gradient : copy;
  if (state < 0 || !has_bucket(&b->plan->syncs[state])) return NULL;
  shoal_reshard_facts_t facts;
  SHOAL_RETURN_IF_ERROR(
      shoal_channel_describe(channel, channel->micro ? 0 : -1, b->plan->allocator, &facts));
  if (facts.kind <= SHOAL_RESHARD_SLICE) return NULL;
  if (gradient >= 0 ? !facts.reduces : facts.kind != SHOAL_RESHARD_ALL_GATHER) return NULL;
  const shoal_sync_t *sync = &b->plan->syncs[state];
  *out_key = (bucket_key_t){.mesh = channel->src->mesh,
                            .lane = channel->lane,
                            .segment = item->segment,
                            .micro = channel->micro,
                            .collective = facts.collective,
                            .gathers = gradient < 0,
                            .side = gradient < 0 ? item->side : SHOAL_SIDE_BACKWARD,
                            .kind = facts.kind,
                            .reduce = facts.reduce,
                            .dtype = gradient >= 0 ? channel->type.dtype : SHOAL_F32,
                            .name = sync->bucket,
                            .limit = sync->bucket ? 0 : sync->bucket_bytes};
  for (int a = 0; a < SHOAL_MAX_AXES; ++a) out_key->axes |= (uint32_t)facts.axes[a] << a;
  *out_found = true;
  return NULL;
}

static bool same_key(const bucket_key_t *a, const bucket_key_t *b) {
  const bool same_name = a->name && b->name ? strcmp(a->name, b->name) == 0 : a->name == b->name;
  return same_name && a->mesh == b->mesh && a->lane == b->lane && a->segment == b->segment &&
         a->micro == b->micro && a->collective == b->collective && a->gathers == b->gathers &&
         a->side == b->side && a->kind == b->kind && a->reduce == b->reduce &&
         a->dtype == b->dtype && a->axes == b->axes && a->limit == b->limit;
}

// Bytes of the value on the rank that has most of it.
static shoal_status_t measure(const pass_t *p, const item_t *item, bool gathers,
                              int64_t *out_bytes) {
  const shoal_channel_t *channel = &p->b->channels.items[item->code.channels[0]];
  return shoal_layout_largest(gathers ? channel->dst : channel->src, &channel->type, NULL,
                              p->b->plan->allocator, out_bytes);
}

// ---- buckets --------------------------------------------------------------------------

static shoal_status_t put(pass_t *p, item_t *item) {
  return SHOAL_PUSH(p->arena, &p->out, item) ? NULL : SHOAL_OOM();
}

// One item of all members, in the order in which their values were made.
static shoal_status_t join_members(const pass_t *p, const bucket_t *bucket, item_t **out_item) {
  const int64_t count = bucket->members.count;
  shoal_arena_t *arena = p->b->arena;
  item_t *item = shoal_arena_copy(arena, bucket->members.items[0], 1, sizeof *item);
  int32_t *inputs = SHOAL_NEW(arena, int32_t, count);
  int32_t *outputs = SHOAL_NEW(arena, int32_t, count);
  int32_t *channels = SHOAL_NEW(arena, int32_t, count);
  if (!item || !inputs || !outputs || !channels) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    const shoal_instruction_t *code = &bucket->members.items[i]->code;
    inputs[i] = code->inputs[0];
    outputs[i] = code->outputs[0];
    channels[i] = code->channels[0];
  }
  item->code.inputs = item->inputs = inputs;
  item->code.outputs = outputs;
  item->code.channels = channels;
  item->code.input_count = item->code.output_count = (int32_t)count;
  if (count > 1) {
    item->code.name =
        shoal_arena_printf(arena, "%s and %lld more", item->code.name, (long long)count - 1);
    if (!item->code.name) return SHOAL_OOM();
  }
  *out_item = item;
  return NULL;
}

static shoal_status_t take_ready(pass_t *p);

// Puts a reduction: updates that need the one before need not lag any more.
static shoal_status_t put_reduction(pass_t *p, item_t *item) {
  ++p->closed;
  for (int32_t i = 0; i < item->code.output_count; ++i)
    p->closed_in[item->code.outputs[i]] = p->closed;
  SHOAL_RETURN_IF_ERROR(put(p, item));
  return p->ends ? NULL : take_ready(p);
}

static bool lags(const pass_t *p, const item_t *item) {
  bool fresh = false;
  for (int32_t i = 0; i < item->code.input_count; ++i)
    fresh |= p->closed_in[item->code.inputs[i]] == p->closed;
  return fresh && p->closed > 0 && !p->ends;
}

static shoal_status_t close_bucket(pass_t *p, bucket_t *bucket, const char *why) {
  if (!bucket->open) return NULL;
  item_t *item = NULL;
  bucket->open = false;
  SHOAL_RETURN_IF_ERROR(join_members(p, bucket, &item));
  for (int64_t i = 0; bucket->waits && i < bucket->members.count; ++i)
    shoal_lower_hold(&p->waiting, bucket->members.items[i], -1);
  item->bucket_bytes = bucket->bytes;
  item->bucket_closed = why;
  return bucket->key.gathers ? put(p, item) : put_reduction(p, item);
}

static shoal_status_t close_all(pass_t *p, const char *why) {
  for (int64_t i = 0; i < p->buckets.count; ++i)
    SHOAL_RETURN_IF_ERROR(close_bucket(p, p->buckets.items[i], why));
  p->buckets.count = 0;
  return NULL;
}

static shoal_status_t put_alone(pass_t *p, item_t *item, bool gathers, int64_t bytes) {
  item->bucket_bytes = bytes;
  item->bucket_closed = "it is as large as a bucket";
  return gathers ? put(p, item) : put_reduction(p, item);
}

static bool is_full(const bucket_t *bucket, int64_t more) {
  const int64_t limit = bucket->key.limit;
  return (limit > 0 && bucket->bytes + more > limit) ||
         bucket->members.count == SHOAL_PROGRAM_MAX_OPERANDS;
}

static shoal_status_t add_member(pass_t *p, const bucket_key_t *key, item_t *item) {
  bucket_t *bucket = NULL;
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(measure(p, item, key->gathers, &bytes));
  if (key->limit > 0 && bytes >= key->limit) return put_alone(p, item, key->gathers, bytes);
  for (int64_t i = 0; i < p->buckets.count && !bucket; ++i)
    if (p->buckets.items[i]->open && same_key(&p->buckets.items[i]->key, key))
      bucket = p->buckets.items[i];
  if (bucket && is_full(bucket, bytes)) {
    const char *why = shoal_arena_printf(p->b->arena, "'%s' did not fit", item->code.name);
    if (!why) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(close_bucket(p, bucket, why));
    bucket = NULL;
  }
  if (!bucket) {
    bucket = SHOAL_NEW(p->arena, bucket_t, 1);
    if (!bucket || !SHOAL_PUSH(p->arena, &p->buckets, bucket)) return SHOAL_OOM();
    *bucket = (bucket_t){.key = *key, .open = true, .waits = true};
  }
  bucket->bytes += bytes;
  shoal_lower_hold(&p->waiting, item, 1);
  return SHOAL_PUSH(p->arena, &bucket->members, item) ? NULL : SHOAL_OOM();
}

// ---- items ----------------------------------------------------------------------------

// May the item wait until buckets are closed? Updates may, and what moves and fetches values: who
// else needs these closes the buckets.
static bool may_wait(const pass_t *p, const item_t *item) {
  return item->node < 0 || p->graph->graph->nodes.items[item->node].kind == SHOAL_NODE_UPDATE;
}

static shoal_status_t take(pass_t *p, item_t *item);

// What waits and need not any more, in its order.
static shoal_status_t take_ready(pass_t *p) {
  item_t **items = p->late.items;
  const int64_t count = p->late.count;
  p->late.items = NULL;
  p->late.count = p->late.capacity = 0;
  for (int64_t i = 0; i < count; ++i) shoal_lower_hold(&p->waiting, items[i], -1);
  for (int64_t i = 0; i < count; ++i) SHOAL_RETURN_IF_ERROR(take(p, items[i]));
  return NULL;
}

// Everything that waits. What joins buckets there is closed behind the others.
static shoal_status_t take_late(pass_t *p, const char *why) {
  p->ends = true;
  SHOAL_RETURN_IF_ERROR(close_all(p, why));
  while (p->late.count > 0) {
    SHOAL_RETURN_IF_ERROR(take_ready(p));
    SHOAL_RETURN_IF_ERROR(close_all(p, why));
  }
  p->ends = false;
  return NULL;
}

// The item needs something that waits and cannot wait itself.
static shoal_status_t free_inputs(pass_t *p, const item_t *item) {
  const char *why = shoal_arena_printf(p->b->arena, "'%s' needs it", item->code.name);
  if (!why) return SHOAL_OOM();
  for (int64_t i = 0; i < p->buckets.count && shoal_lower_is_held_up(&p->waiting, item); ++i)
    SHOAL_RETURN_IF_ERROR(close_bucket(p, p->buckets.items[i], why));
  return shoal_lower_is_held_up(&p->waiting, item) ? take_late(p, why) : NULL;
}

static shoal_status_t take(pass_t *p, item_t *item) {
  const bool blocked = shoal_lower_is_held_up(&p->waiting, item);
  if (may_wait(p, item) && (blocked || lags(p, item))) {
    shoal_lower_hold(&p->waiting, item, 1);
    return SHOAL_PUSH(p->arena, &p->late, item) ? NULL : SHOAL_OOM();
  }
  if (blocked) SHOAL_RETURN_IF_ERROR(free_inputs(p, item));
  bool found;
  bucket_key_t key;
  SHOAL_RETURN_IF_ERROR(find_key(p, item, &found, &key));
  return found ? add_member(p, &key, item) : put(p, item);
}

// ---- gathers of states ----------------------------------------------------------------

static bool reads_state(const pass_t *p, const item_t *item) {
  return item->code.opcode == SHOAL_OPCODE_RESHARD &&
         instance_at(p->b, item->code.inputs[0])->kind == SHOAL_BUFFER_STATE;
}

// A bucket of gathers from the one at `at`, which is needed now, and those behind it that fit.
static shoal_status_t gather(pass_t *p, int64_t count, item_t *const *items, int64_t at,
                             const bucket_key_t *key) {
  bucket_t bucket = {.key = *key, .open = true};
  const char *why = "no other of them was left";
  for (int64_t i = at; i < count; ++i) {
    bool found;
    bucket_key_t other;
    int64_t bytes;
    if (p->taken[i] || !reads_state(p, items[i])) continue;
    SHOAL_RETURN_IF_ERROR(find_key(p, items[i], &found, &other));
    if (!found || !same_key(key, &other)) continue;
    SHOAL_RETURN_IF_ERROR(measure(p, items[i], true, &bytes));
    if (key->limit > 0 && bytes >= key->limit) {
      if (i > at) continue;
      p->taken[i] = true;
      return put_alone(p, items[i], true, bytes);
    }
    if (is_full(&bucket, bytes)) {
      why = shoal_arena_printf(p->b->arena, "'%s' did not fit", items[i]->code.name);
      if (!why) return SHOAL_OOM();
      break;
    }
    p->taken[i] = true;
    bucket.bytes += bytes;
    if (!SHOAL_PUSH(p->arena, &bucket.members, items[i])) return SHOAL_OOM();
  }
  return close_bucket(p, &bucket, why);
}

// ---- one graph ------------------------------------------------------------------------

// The items of a segment find their order and buckets.
static shoal_status_t bucket_segment(pass_t *p, int64_t count, item_t *const *items) {
  p->out.count = p->late.count = p->buckets.count = 0;
  p->closed = 0;
  p->taken = SHOAL_NEW(p->arena, bool, count);
  if (!p->taken) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) {
    bool found = false;
    bucket_key_t key;
    if (p->taken[i]) continue;
    if (reads_state(p, items[i])) SHOAL_RETURN_IF_ERROR(find_key(p, items[i], &found, &key));
    SHOAL_RETURN_IF_ERROR(found ? gather(p, count, items, i, &key) : take(p, items[i]));
  }
  return take_late(p, "the segment ended");
}

// Segments keep their places in the list, with fewer items.
static shoal_status_t bucket_graph(pass_t *p) {
  graph_build_t *graph = p->graph;
  const int64_t count = graph->items.count;
  int64_t kept = 0;
  by_segment_t sorted;
  SHOAL_RETURN_IF_ERROR(shoal_lower_by_segment(graph, p->arena, &sorted));
  for (int64_t s = 0, from = 0; s < graph->segments.count; from = sorted.ends[s++]) {
    SHOAL_RETURN_IF_ERROR(bucket_segment(p, sorted.ends[s] - from, sorted.items + from));
    for (int64_t i = from; i < sorted.ends[s]; ++i)
      graph->items.items[sorted.places[i]] =
          i - from < p->out.count ? p->out.items[i - from] : NULL;
  }
  for (int64_t i = 0; i < count; ++i)
    if (graph->items.items[i]) graph->items.items[kept++] = graph->items.items[i];
  graph->items.count = kept;
  return NULL;
}

shoal_status_t shoal_lower_pass_buckets(build_t *b) {
  bool any = false;
  for (int64_t s = 0; s < b->plan->model->states.count; ++s) any |= has_bucket(&b->plan->syncs[s]);
  for (int64_t g = 0; any && g < b->graph_count; ++g) {
    shoal_arena_t scratch;
    shoal_arena_init(b->plan->allocator, &scratch);
    pass_t p = {.b = b, .graph = &b->graphs[g], .arena = &scratch};
    p.waiting.writers = SHOAL_NEW(&scratch, int32_t, b->instances.count);
    p.waiting.users = SHOAL_NEW(&scratch, int32_t, b->instances.count);
    p.closed_in = SHOAL_NEW(&scratch, int32_t, b->instances.count);
    shoal_status_t status =
        p.waiting.writers && p.waiting.users && p.closed_in
            ? shoal_gradients_make(p.graph->graph, b->plan->model, &scratch, &p.states)
            : SHOAL_OOM();
    if (!status) status = bucket_graph(&p);
    shoal_arena_deinit(&scratch);
    SHOAL_RETURN_IF_ERROR(status);
  }
  return NULL;
}
