// Layouts as text: [mesh!]item,item,... (the grammar is in shoal/layout.h). Printing gives the
// canonical spelling: units of 1 and halos of zero are left out. What parses has passed
// shoal_layout_check_items.
#include <stdio.h>

#include "base/text.h"
#include "layout/cursor.h"
#include "layout/layout_impl.h"
#include "layout/reduce.h"
#include "shoal/options.h"

// ---- parse -----------------------------------------------------------------------------

typedef struct parser {
  const char *text;  // the whole layout, for messages
  cursor_t at;
  shoal_arena_t *arena;
  shoal_layout_t *layout;
} parser_t;

static shoal_status_t bad(parser_t *p, const char *expected) {
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      "items are axis[>turn]:dim[*chunks][/unit][#items][(weights)][+before+after], "
      "axis:flat[/unit][(weights)] and axis:partial(sum|max|min|lse)",
      "layout '%s': expected %s at '%s'", p->text, expected, p->at);
}

static shoal_status_t parse_mesh(parser_t *p, const shoal_mesh_t *meshes, int64_t mesh_count) {
  if (mesh_count < 1)
    return SHOAL_ERROR(INVALID_ARGUMENT, "layout '%s': there is no mesh", p->text);
  p->layout->mesh = &meshes[0];
  if (!strchr(p->text, '!')) return NULL;
  char name[SHOAL_NAME_SIZE];
  if (!cursor_name(&p->at, name) || !cursor_accept(&p->at, '!'))
    return bad(p, "a mesh name and '!'");
  for (int64_t i = 0; i < mesh_count; ++i) {
    if (strcmp(meshes[i].name, name) == 0) {
      p->layout->mesh = &meshes[i];
      return NULL;
    }
  }
  const char **names = SHOAL_NEW(p->arena, const char *, mesh_count);
  if (!names) return SHOAL_OOM();
  for (int64_t i = 0; i < mesh_count; ++i) names[i] = meshes[i].name;
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND, shoal_did_you_mean(name, names, mesh_count, "name a mesh of the plan", &hint),
      "layout '%s': there is no mesh '%s'", p->text, name);
}

static shoal_status_t unknown_axis(parser_t *p, const char *name) {
  const shoal_mesh_t *mesh = p->layout->mesh;
  const char *names[SHOAL_MAX_AXES + 1];
  char all[SHOAL_NAME_SIZE * (SHOAL_MAX_AXES + 2)] = "the mesh has ";
  size_t length = strlen(all);
  for (int32_t i = 0; i < mesh->axis_count; ++i) {
    names[i] = mesh->axes[i].name;
    length += (size_t)snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", names[i]);
  }
  if (mesh->axis_count == 0) snprintf(all + length, sizeof all - length, "no axes");
  names[mesh->axis_count] = "micro";
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          shoal_did_you_mean(name, names, mesh->axis_count + 1, all, &hint),
                          "layout '%s': mesh%s%s has no axis '%s'", p->text,
                          mesh->name[0] ? " " : "", mesh->name, name);
}

// '*' was read.
static shoal_status_t parse_chunks(parser_t *p, shoal_cut_t *cut) {
  if (!cursor_accept(&p->at, '(')) {
    int64_t count = 0;
    if (!cursor_int(&p->at, &count) || count < 1 || count > INT32_MAX) {
      return bad(p, "a number of chunks, at least 1, or their lengths in brackets");
    }
    cut->chunk_count = (int32_t)count;
    return NULL;
  }
  do {
    if (cut->chunk_count == SHOAL_MAX_CHUNKS) {
      return SHOAL_ERROR_HINT(UNSUPPORTED, "join neighbouring chunks, or write equal ones as '*n'",
                              "layout '%s': more than %d chunk lengths", p->text, SHOAL_MAX_CHUNKS);
    }
    shoal_chunk_t *chunk = &cut->chunks[cut->chunk_count];
    if (!cursor_int(&p->at, &chunk->length) || chunk->length < 1) {
      return bad(p, "a chunk's length, at least 1");
    }
    if (cursor_accept(&p->at, '/') && (!cursor_int(&p->at, &chunk->unit) || chunk->unit < 1)) {
      return bad(p, "a chunk's unit, at least 1");
    }
    ++cut->chunk_count;
  } while (cursor_accept(&p->at, ','));
  return cursor_accept(&p->at, ')') ? NULL : bad(p, "',' or ')' after a chunk");
}

// '(' was read.
static shoal_status_t parse_weights(parser_t *p, shoal_cut_t *cut) {
  SHOAL_VEC(int64_t) weights = {0};
  do {
    int64_t weight = 0;
    if (!cursor_int(&p->at, &weight)) return bad(p, "a weight");
    if (!SHOAL_PUSH(p->arena, &weights, weight)) return SHOAL_OOM();
  } while (cursor_accept(&p->at, ','));
  if (!cursor_accept(&p->at, ')')) return bad(p, "',' or ')' after a weight");
  int64_t size = shoal_layout_axis_size(p->layout->mesh, cut->axis);
  if (weights.count != size) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one weight per rank along the axis",
                            "layout '%s': axis '%s' has %lld ranks and %lld weights", p->text,
                            shoal_layout_axis_name(p->layout->mesh, cut->axis), (long long)size,
                            (long long)weights.count);
  }
  cut->weights = weights.items;
  return NULL;
}

static shoal_status_t parse_reduce(parser_t *p, shoal_cut_t *cut) {
  char name[SHOAL_NAME_SIZE];
  cursor_t start = p->at;
  if (!cursor_accept(&p->at, '(') || !cursor_name(&p->at, name) || !cursor_accept(&p->at, ')')) {
    p->at = start;
    return bad(p, "(sum), (max), (min) or (lse)");
  }
  if (shoal_reduce_parse(name, &cut->reduce)) return NULL;
  return SHOAL_ERROR_HINT(
      INVALID_ARGUMENT,
      "use sum, max, min or lse; a mean is a sum with the whole's count as divisor",
      "layout '%s': there is no partial(%s)", p->text, name);
}

// "tile(" is ahead.
static bool at_tile(const parser_t *p) {
  cursor_t at = p->at;
  char name[SHOAL_NAME_SIZE];
  return cursor_name(&at, name) && strcmp(name, "tile") == 0 && cursor_accept(&at, '(');
}

static shoal_status_t parse_tile(parser_t *p) {
  static const char *const form = "'tile(index/count):dim'";
  shoal_tile_t *tile = &p->layout->tile;
  char name[SHOAL_NAME_SIZE];
  int64_t index = 0, count = 0, dim = 0;
  if (!cursor_name(&p->at, name) || !cursor_accept(&p->at, '(') || !cursor_int(&p->at, &index) ||
      !cursor_accept(&p->at, '/') || !cursor_int(&p->at, &count) || !cursor_accept(&p->at, ')') ||
      !cursor_accept(&p->at, ':') || !cursor_int(&p->at, &dim))
    return bad(p, form);
  if (index < 0 || count < 1 || index >= count || count > INT32_MAX || dim >= SHOAL_MAX_RANK)
    return bad(p, "a tile of at least one, counted from 0, and a dim below 8, before this");
  *tile = (shoal_tile_t){(int32_t)index, (int32_t)count, {.dim = (int32_t)dim}};
  if (cursor_accept(&p->at, '*')) SHOAL_RETURN_IF_ERROR(parse_chunks(p, &tile->cut));
  if (cursor_accept(&p->at, '/') && (!cursor_int(&p->at, &tile->cut.unit) || tile->cut.unit < 1))
    return bad(p, "a unit, at least 1");
  return NULL;
}

static shoal_status_t parse_item(parser_t *p) {
  shoal_layout_t *layout = p->layout;
  char name[SHOAL_NAME_SIZE], word[SHOAL_NAME_SIZE] = "";
  int64_t turn = 0;
  if (!cursor_name(&p->at, name)) return bad(p, "axis:dim");
  if (cursor_accept(&p->at, '>') && (!cursor_int(&p->at, &turn) || turn < 1))
    return bad(p, "a turn, at least 1");
  if (!cursor_accept(&p->at, ':')) return bad(p, "axis:dim");
  if (layout->cut_count == SHOAL_MAX_CUTS) {
    return SHOAL_ERROR(UNSUPPORTED, "layout '%s': more than %d items", p->text, SHOAL_MAX_CUTS);
  }
  shoal_cut_t *cut = &layout->cuts[layout->cut_count];
  *cut = (shoal_cut_t){.axis = SHOAL_AXIS_MICRO, .turn = turn};
  if (strcmp(name, "micro") != 0) {
    cut->axis = shoal_mesh_axis(layout->mesh, name);
    if (cut->axis < 0) return unknown_axis(p, name);
  }
  int64_t dim = 0;
  if (cursor_int(&p->at, &dim)) {
    if (dim >= SHOAL_MAX_RANK) return bad(p, "a dim below 8");
    cut->dim = (int32_t)dim;
  } else {
    cursor_t start = p->at;
    bool named = cursor_name(&p->at, word);
    if (named && strcmp(word, "flat") == 0) {
      cut->kind = SHOAL_CUT_FLAT;
    } else if (named && strcmp(word, "partial") == 0) {
      cut->kind = SHOAL_CUT_PARTIAL;
      ++layout->cut_count;
      return parse_reduce(p, cut);
    } else {
      p->at = start;
      return bad(p, "a dim, 'flat' or 'partial(...)'");
    }
  }
  bool along = cut->kind == SHOAL_CUT_DIM;
  if (along && cursor_accept(&p->at, '*')) SHOAL_RETURN_IF_ERROR(parse_chunks(p, cut));
  if (cursor_accept(&p->at, '/') && (!cursor_int(&p->at, &cut->unit) || cut->unit < 1)) {
    return bad(p, "a unit, at least 1");
  }
  if (along && cursor_accept(&p->at, '#')) {
    if (!cursor_int(&p->at, &cut->items)) return bad(p, "a number of items");
    if (cut->items == 0) cut->items = SHOAL_NO_ITEMS;
  }
  if (cursor_accept(&p->at, '(')) SHOAL_RETURN_IF_ERROR(parse_weights(p, cut));
  if (along && cursor_signed(&p->at, &cut->before) && !cursor_signed(&p->at, &cut->after)) {
    return bad(p, "the halo's other side, as in '+1+1' or '+0-1'");
  }
  ++layout->cut_count;
  return NULL;
}

// The word that plans are explained with, where a layout has no items.
static bool says_replicated(parser_t *p) {
  cursor_t at = p->at;
  char name[SHOAL_NAME_SIZE];
  if (!cursor_name(&at, name) || strcmp(name, "replicated") != 0 || !cursor_at_end(&at))
    return false;
  p->at = at;
  return true;
}

shoal_status_t shoal_layout_parse(const char *text, const shoal_mesh_t *meshes, int64_t mesh_count,
                                  shoal_arena_t *arena, shoal_layout_t *out_layout) {
  shoal_layout_t layout = {0};
  parser_t p = {.text = text, .at = text, .arena = arena, .layout = &layout};
  SHOAL_RETURN_IF_ERROR(parse_mesh(&p, meshes, mesh_count));
  if (!cursor_at_end(&p.at) && !says_replicated(&p)) {
    bool first = true;
    do {
      SHOAL_RETURN_IF_ERROR(first && at_tile(&p) ? parse_tile(&p) : parse_item(&p));
      first = false;
    } while (cursor_accept(&p.at, ','));
    if (!cursor_at_end(&p.at)) return bad(&p, "',' or the end");
  }
  SHOAL_RETURN_IF_ERROR(shoal_layout_check_items(&layout));
  *out_layout = layout;
  return NULL;
}

// ---- print -----------------------------------------------------------------------------

typedef struct sink {
  char *buffer;
  size_t capacity, length;  // length counts what did not fit, too
} sink_t;

static void put(sink_t *sink, const char *string) {
  for (; *string; ++string, ++sink->length) {
    if (sink->length + 1 < sink->capacity) sink->buffer[sink->length] = *string;
  }
}

static void put_int(sink_t *sink, const char *before, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%lld", (long long)value);
  put(sink, before);
  put(sink, digits);
}

static void put_chunks(sink_t *sink, const shoal_cut_t *cut) {
  if (cut->chunks[0].length == 0) {
    put_int(sink, "*", cut->chunk_count);
    return;
  }
  for (int32_t i = 0; i < cut->chunk_count && i < SHOAL_MAX_CHUNKS; ++i) {
    put_int(sink, i ? "," : "*(", cut->chunks[i].length);
    if (cut->chunks[i].unit) put_int(sink, "/", cut->chunks[i].unit);
  }
  put(sink, ")");
}

int shoal_layout_item_format(const shoal_layout_t *layout, int32_t index, char *buffer,
                             size_t capacity) {
  const shoal_cut_t *cut = index < 0 ? &layout->tile.cut : &layout->cuts[index];
  sink_t sink = {buffer, capacity, 0};
  bool known = cut->axis >= SHOAL_AXIS_MICRO && cut->axis < layout->mesh->axis_count;
  if (index < 0) {
    put_int(&sink, "tile(", layout->tile.index);
    put_int(&sink, "/", layout->tile.count);
    put(&sink, ")");
  } else {
    put(&sink, known ? shoal_layout_axis_name(layout->mesh, cut->axis) : "?");
    if (cut->turn) put_int(&sink, ">", cut->turn);
  }
  if (cut->kind == SHOAL_CUT_PARTIAL) {
    put(&sink, ":partial(");
    put(&sink, shoal_reduce_name(cut->reduce));
    put(&sink, ")");
  } else {
    if (cut->kind == SHOAL_CUT_FLAT)
      put(&sink, ":flat");
    else
      put_int(&sink, ":", cut->dim);
    if (cut->chunk_count > 0) put_chunks(&sink, cut);
    if (cut->unit > 1) put_int(&sink, "/", cut->unit);
    if (cut->items) put_int(&sink, "#", cut->items == SHOAL_NO_ITEMS ? 0 : cut->items);
    if (cut->weights && known) {
      int64_t size = shoal_layout_axis_size(layout->mesh, cut->axis);
      for (int64_t i = 0; i < size; ++i) put_int(&sink, i ? "," : "(", cut->weights[i]);
      put(&sink, ")");
    }
    if (cut->before || cut->after) {
      put_int(&sink, cut->before < 0 ? "" : "+", cut->before);
      put_int(&sink, cut->after < 0 ? "" : "+", cut->after);
    }
  }
  if (capacity) buffer[sink.length < capacity ? sink.length : capacity - 1] = 0;
  return (int)sink.length;
}

shoal_status_t shoal_layout_print(const shoal_layout_t *layout, shoal_arena_t *arena,
                                  const char **out_text) {
  const int32_t first = layout->tile.count > 0 ? -1 : 0;
  size_t length = strlen(layout->mesh->name) + 2;
  for (int32_t i = first; i < layout->cut_count; ++i) {
    length += (size_t)shoal_layout_item_format(layout, i, NULL, 0) + 1;
  }
  char *text = shoal_arena_alloc(arena, length, 1);
  if (!text) return SHOAL_OOM();
  size_t at = 0;
  if (layout->mesh->name[0]) at += (size_t)snprintf(text, length, "%s!", layout->mesh->name);
  for (int32_t i = first; i < layout->cut_count; ++i) {
    if (i > first) text[at++] = ',';
    at += (size_t)shoal_layout_item_format(layout, i, text + at, length - at);
  }
  *out_text = text;
  return NULL;
}
