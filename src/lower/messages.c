// Messages between two ranks of a lane must be sent and received in the same order. Which works a
// message connects is known once all items of the loop have their places; the rows of the two
// meshes then say in which order the messages come. Where they differ, as with values that skip
// stages of a mesh that has several, those that come too early or too late get the spare lane. A
// table in which the order differs there, too, is complete and free of deadlock, and still cannot
// run: it is refused here, with the entries.
#include "base/status.h"
#include "lower/build.h"
#include "lower/loop.h"

// Messages that are sent with one work and received with another.
typedef struct link {
  int32_t from, to;            // places
  int32_t lane;                // -1: not dealt out yet
  int32_t next_from, next_to;  // of the same place; -1: no more
  const char *name;            // of the first
} link_t;

typedef struct links {
  const loop_plan_t *loop;
  SHOAL_VEC(link_t) all;
  int32_t *first_from, *first_to;  // by place; -1: none
} links_t;

typedef struct cursor {
  const shoal_schedule_row_t *row;
  int64_t entry;  // the present one
  int32_t link;   // the next of that entry; -1: no more
  bool entered;
} cursor_t;

static shoal_status_t list_links(const build_t *b, const graph_build_t *graph,
                                 shoal_arena_t *scratch, links_t *out) {
  const int32_t places = 3 * out->loop->stages.count;
  out->first_from = SHOAL_NEW(scratch, int32_t, places);
  out->first_to = SHOAL_NEW(scratch, int32_t, places);
  if (!out->first_from || !out->first_to) return SHOAL_OOM();
  for (int32_t i = 0; i < places; ++i) out->first_from[i] = out->first_to[i] = -1;
  for (int64_t i = graph->items.count; i-- > 0;) {
    const item_t *item = graph->items.items[i];
    if (item->phase != PHASE_LOOP || item->depth == item->send_depth) continue;
    const link_t link = {item->send_depth,
                         item->depth,
                         b->channels.items[item->code.channels[0]].lane,
                         out->first_from[item->send_depth],
                         out->first_to[item->depth],
                         item->code.name};
    int32_t known = link.next_from;
    while (known >= 0 && out->all.items[known].to != link.to)
      known = out->all.items[known].next_from;
    if (known >= 0) continue;
    out->first_from[link.from] = out->first_to[link.to] = (int32_t)out->all.count;
    if (!SHOAL_PUSH(scratch, &out->all, link)) return SHOAL_OOM();
  }
  return NULL;
}

static int32_t mesh_at(const loop_plan_t *loop, int32_t place) {
  return loop->stages.meshes[shoal_lower_place_stage(loop, place)];
}

static bool same_way(const loop_plan_t *loop, const link_t *a, const link_t *b) {
  return a->lane == b->lane && mesh_at(loop, a->from) == mesh_at(loop, b->from) &&
         mesh_at(loop, a->to) == mesh_at(loop, b->to);
}

// The next link, of those like `like`, that the row comes to; -1: none.
static int32_t next_link(const links_t *links, const link_t *like, bool sends, cursor_t *at) {
  for (; at->entry < at->row->count; ++at->entry, at->entered = false) {
    const shoal_schedule_entry_t *e = &at->row->entries[at->entry];
    const int32_t place = shoal_lower_place_of(links->loop, e->work, e->stage);
    if (!at->entered) at->link = sends ? links->first_from[place] : links->first_to[place];
    at->entered = true;
    while (at->link >= 0) {
      const int32_t number = at->link;
      const link_t *link = &links->all.items[number];
      at->link = sends ? link->next_from : link->next_to;
      if (same_way(links->loop, link, like)) return number;
    }
  }
  return -1;
}

static const shoal_schedule_row_t *row_of(const loop_plan_t *loop, int32_t place) {
  const int32_t stage = shoal_lower_place_stage(loop, place);
  return &loop->schedule->rows[loop->schedule->stage_meshes[stage]];
}

static shoal_status_t compare_rows(const links_t *links, const link_t *like) {
  const loop_plan_t *loop = links->loop;
  cursor_t sends = {.row = row_of(loop, like->from)}, receives = {.row = row_of(loop, like->to)};
  for (;;) {
    const int32_t sent = next_link(links, like, true, &sends);
    const int32_t received = next_link(links, like, false, &receives);
    if (sent < 0 && received < 0) return NULL;
    const shoal_schedule_entry_t *from = &sends.row->entries[sends.entry];
    const shoal_schedule_entry_t *to = &receives.row->entries[receives.entry];
    if (sent == received && from->micro == to->micro) continue;
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "let both rows take them in the same order",
        "the next message from mesh '%s' to mesh '%s' ('%s') is sent by entry %lld, %c%d.%d, but "
        "entry %lld, %c%d.%d, expects another one first",
        sends.row->mesh, receives.row->mesh, links->all.items[sent].name, (long long)sends.entry,
        "FBW"[from->work], from -> stage, from -> micro, (long long)receives.entry, "FBW"[to->work],
        to -> stage, to -> micro);
  }
}

static shoal_status_t check_lanes(const links_t *links) {
  for (int64_t k = links->all.count; k-- > 0;) {  // the first of the graph is the last of these
    bool done = false;                            // with another of the same meshes and lane
    for (int64_t i = k + 1; i < links->all.count && !done; ++i)
      done = same_way(links->loop, &links->all.items[i], &links->all.items[k]);
    if (!done) SHOAL_RETURN_IF_ERROR(compare_rows(links, &links->all.items[k]));
  }
  return NULL;
}

// The first lane, its usual one before spare ones, on which the link keeps the order of those
// that were dealt out before it.
static shoal_status_t find_lane(links_t *links, link_t *link, int32_t usual) {
  shoal_status_t first = NULL;
  link->lane = usual;
  for (int32_t spare = SHOAL_LOWER_LANE_SPARE;; ++spare) {
    shoal_status_t status = compare_rows(links, link);
    if (!status) break;
    if (first)
      shoal_status_free(status);
    else
      first = status;
    if (spare == SHOAL_LOWER_LANE_COUNT) return first;
    link->lane = spare;
  }
  shoal_status_free(first);
  return NULL;
}

static void set_lanes(const build_t *b, const graph_build_t *graph, const links_t *links) {
  for (int64_t i = 0; i < graph->items.count; ++i) {
    const item_t *item = graph->items.items[i];
    if (item->phase != PHASE_LOOP || item->depth == item->send_depth) continue;
    int32_t link = links->first_from[item->send_depth];
    while (links->all.items[link].to != item->depth) link = links->all.items[link].next_from;
    for (int32_t k = 0; k < item->code.input_count; ++k)
      b->channels.items[item->code.channels[k]].lane = links->all.items[link].lane;
  }
}

shoal_status_t shoal_lower_order_messages(const build_t *b, const graph_build_t *graph,
                                          shoal_arena_t *scratch) {
  links_t links = {.loop = graph->loop};
  SHOAL_RETURN_IF_ERROR(list_links(b, graph, scratch, &links));
  shoal_status_t status = check_lanes(&links);
  if (!status) return NULL;
  shoal_status_free(status);
  int32_t *usual = SHOAL_NEW(scratch, int32_t, links.all.count);
  if (!usual) return SHOAL_OOM();
  for (int64_t k = 0; k < links.all.count; ++k) {
    usual[k] = links.all.items[k].lane;
    links.all.items[k].lane = -1;
  }
  for (int64_t k = links.all.count; k-- > 0;)
    SHOAL_RETURN_IF_ERROR(find_lane(&links, &links.all.items[k], usual[k]));
  set_lanes(b, graph, &links);
  return NULL;
}
