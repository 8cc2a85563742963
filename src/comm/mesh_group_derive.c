// Meshes made of other meshes - inclusive, union, sub-mesh, split axes, experts - the check against
// a world, and the drawing. A derived mesh always has an explicit rank list in the arena, unless it
// keeps its source's; its name is empty.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/mesh_group.h"

// ---- check ----------------------------------------------------------------------------

// The mesh as text, cut where it is long: for messages, so it must not fail.
static void mesh_text(const shoal_mesh_t *mesh, char *buffer, size_t capacity) {
  size_t at = 0;
  buffer[0] = 0;
  for (int32_t i = 0; i < mesh->axis_count && at < capacity; ++i) {
    at += (size_t)snprintf(buffer + at, capacity - at, "%s%s=%lld", i ? "," : "",
                           mesh->axes[i].name, (long long)mesh->axes[i].size);
  }
}

static shoal_status_t check_twice(const shoal_mesh_t *mesh, const char *text) {
  const int64_t size = mesh->ranks ? shoal_mesh_size(mesh) : 0;
  for (int64_t i = 0; i < size; ++i) {
    if (shoal_mesh_position(mesh, mesh->ranks[i]) == i) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a rank has one position on a mesh",
                            "mesh '%s' has rank %d twice", text, mesh->ranks[i]);
  }
  return NULL;
}

shoal_status_t shoal_mesh_check(const shoal_mesh_t *mesh, int32_t world_size, bool whole) {
  const int64_t size = shoal_mesh_size(mesh);
  char text[200], hint[120];
  mesh_text(mesh, text, sizeof text);
  if (size > world_size) {
    snprintf(hint, sizeof hint, "start %lld ranks, or make an axis smaller", (long long)size);
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint,
                            "mesh '%s' makes %lld ranks, but the world has %d", text,
                            (long long)size, world_size);
  }
  for (int64_t i = 0; i < size; ++i) {
    const int32_t rank = shoal_mesh_rank(mesh, i);
    if (rank >= 0 && rank < world_size) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "list ranks of the world, which count from 0",
                            "mesh '%s' has rank %d, but the world has %d ranks", text, rank,
                            world_size);
  }
  SHOAL_RETURN_IF_ERROR(check_twice(mesh, text));
  if (whole && size != world_size) {
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "make an axis larger, start fewer ranks, or leave some inactive",
        "mesh '%s' makes %lld ranks, but the world has %d", text, (long long)size, world_size);
  }
  return NULL;
}

// ---- derived meshes -------------------------------------------------------------------

static shoal_status_t one_axis(int64_t count, const int32_t *ranks, shoal_arena_t *arena,
                               shoal_mesh_t *out_mesh) {
  *out_mesh = (shoal_mesh_t){.axis_count = 1, .axes = {{.name = "rank", .size = count}}};
  out_mesh->ranks = ranks;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_sort(out_mesh, arena));
  return check_twice(out_mesh, "rank");
}

shoal_status_t shoal_mesh_of_ranks(int64_t count, const int32_t *ranks, shoal_arena_t *arena,
                                   shoal_mesh_t *out_mesh) {
  if (count < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "a mesh of %lld ranks", (long long)count);
  const int32_t *copy = shoal_arena_copy(arena, ranks, (size_t)count, sizeof *ranks);
  return copy ? one_axis(count, copy, arena, out_mesh) : SHOAL_OOM();
}

shoal_status_t shoal_mesh_union(const shoal_mesh_t *a, const shoal_mesh_t *b, shoal_arena_t *arena,
                                shoal_mesh_t *out_mesh) {
  const int64_t a_size = shoal_mesh_size(a), b_size = shoal_mesh_size(b);
  int32_t *ranks = SHOAL_NEW(arena, int32_t, a_size + b_size);
  if (!ranks) return SHOAL_OOM();
  int64_t count = 0;
  for (int64_t i = 0; i < a_size; ++i) ranks[count++] = shoal_mesh_rank(a, i);
  for (int64_t i = 0; i < b_size; ++i) {
    const int32_t rank = shoal_mesh_rank(b, i);
    if (shoal_mesh_position(a, rank) < 0) ranks[count++] = rank;
  }
  return one_axis(count, ranks, arena, out_mesh);
}

shoal_status_t shoal_mesh_sub(const shoal_mesh_t *mesh, const char *keep, int32_t rank,
                              shoal_arena_t *arena, shoal_mesh_t *out_mesh) {
  if (shoal_mesh_position(mesh, rank) < 0) {
    char text[200];
    mesh_text(mesh, text, sizeof text);
    return SHOAL_ERROR_HINT(NOT_FOUND, "a sub-mesh goes through a rank of its mesh",
                            "rank %d is not on mesh '%s'", rank, text);
  }
  int32_t axes[SHOAL_MAX_AXES];
  shoal_mesh_t sub = {.micro = mesh->micro};
  SHOAL_RETURN_IF_ERROR(shoal_mesh_axes(mesh, keep, &sub.axis_count, axes));
  for (int32_t i = 0; i < sub.axis_count; ++i) sub.axes[i] = mesh->axes[axes[i]];
  int64_t count;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_group_ranks(mesh, keep, rank, arena, &count, &sub.ranks));
  SHOAL_RETURN_IF_ERROR(shoal_mesh_sort(&sub, arena));
  *out_mesh = sub;
  return NULL;
}

static shoal_status_t name_axis(shoal_mesh_t *mesh, int32_t index, const char *name, int64_t size) {
  if (strlen(name) >= SHOAL_NAME_SIZE || !name[0] || strcmp(name, "micro") == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' cannot name an axis", name);
  }
  if (shoal_mesh_axis(mesh, name) >= 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the mesh has an axis '%s' already", name);
  }
  mesh->axes[index] = (shoal_axis_t){.size = size};
  memcpy(mesh->axes[index].name, name, strlen(name) + 1);
  return NULL;
}

shoal_status_t shoal_mesh_split(const shoal_mesh_t *mesh, const char *axis, const char *outer,
                                const char *inner, int64_t inner_size, shoal_arena_t *arena,
                                shoal_mesh_t *out_mesh) {
  int32_t count, axes[SHOAL_MAX_AXES];
  SHOAL_RETURN_IF_ERROR(shoal_mesh_axes(mesh, axis, &count, axes));
  if (count != 1) return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is not one axis", axis);
  const int32_t at = axes[0];
  const int64_t size = mesh->axes[at].size;
  if (inner_size < 1 || size % inner_size != 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give a size that divides the axis",
                            "axis '%s' has %lld ranks, which %lld does not divide",
                            mesh->axes[at].name, (long long)size, (long long)inner_size);
  }
  if (mesh->axis_count == SHOAL_MAX_AXES) {
    return SHOAL_ERROR(UNSUPPORTED, "more than %d axes", SHOAL_MAX_AXES);
  }
  shoal_mesh_t split;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_copy(mesh, arena, &split));
  memset(split.name, 0, sizeof split.name);
  for (int32_t i = mesh->axis_count; i > at + 1; --i) split.axes[i] = split.axes[i - 1];
  ++split.axis_count;
  split.axes[at] = split.axes[at + 1] = (shoal_axis_t){.size = 1};
  SHOAL_RETURN_IF_ERROR(name_axis(&split, at, outer, size / inner_size));
  SHOAL_RETURN_IF_ERROR(name_axis(&split, at + 1, inner, inner_size));
  *out_mesh = split;
  return NULL;
}

shoal_status_t shoal_mesh_experts(const shoal_mesh_t *mesh, int64_t expert_size,
                                  shoal_arena_t *arena, shoal_mesh_t *out_mesh) {
  return shoal_mesh_split(mesh, "data", "moe_dp", "moe_ep", expert_size, arena, out_mesh);
}

// ---- drawing --------------------------------------------------------------------------

static int digits(int64_t value) {
  return snprintf(NULL, 0, "%lld", (long long)value);
}

// One slice: the last axis across, the one before it (if there is one) down.
static void draw_slice(const shoal_mesh_t *mesh, int64_t first, const char *title, int width,
                       shoal_text_t *text) {
  const int32_t n = mesh->axis_count;
  const shoal_axis_t *across = n > 0 ? &mesh->axes[n - 1] : NULL;
  const shoal_axis_t *down = n > 1 ? &mesh->axes[n - 2] : NULL;
  const int64_t columns = across ? across->size : 1, rows = down ? down->size : 1;
  const char *column_name = across ? across->name : "", *row_name = down ? down->name : "";
  const int label = down ? (int)strlen(row_name) + 1 + digits(rows - 1) : 4;  // "rank"
  const int name_width = (int)strlen(column_name), title_width = (int)strlen(title);
  int left = label > title_width ? label : title_width;
  shoal_text_addf(text, "%-*s  %s", left, title, column_name);
  for (int64_t c = 0; c < columns && across; ++c) {
    shoal_text_addf(text, " %*lld", width, (long long)c);
  }
  shoal_text_add(text, "\n");
  for (int64_t r = 0; r < rows; ++r) {
    char name[SHOAL_NAME_SIZE + 24] = "rank";
    if (down) {
      snprintf(name, sizeof name, "%s %*lld", row_name, digits(rows - 1), (long long)r);
    }
    shoal_text_addf(text, "%*s  %*s", left, name, name_width, "");
    for (int64_t c = 0; c < columns; ++c) {
      shoal_text_addf(text, " %*d", width, shoal_mesh_rank(mesh, first + r * columns + c));
    }
    shoal_text_add(text, "\n");
  }
}

shoal_status_t shoal_mesh_draw(const shoal_mesh_t *mesh, shoal_arena_t *arena,
                               const char **out_text) {
  const int32_t n = mesh->axis_count, outer = n > 2 ? n - 2 : 0;
  const int64_t size = shoal_mesh_size(mesh);
  int64_t slice = 1;
  for (int32_t i = outer; i < n; ++i) slice *= mesh->axes[i].size;
  int width = n ? digits(mesh->axes[n - 1].size - 1) : 1;
  for (int64_t i = 0; i < size; ++i) {
    const int needed = digits(shoal_mesh_rank(mesh, i));
    if (needed > width) width = needed;
  }
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  for (int64_t first = 0; first < size; first += slice) {
    char title[SHOAL_MAX_AXES * (SHOAL_NAME_SIZE + 24)] = "";
    int64_t coords[SHOAL_MAX_AXES];
    size_t at = 0;
    shoal_mesh_coords(mesh, first, coords);
    for (int32_t i = 0; i < outer; ++i) {
      at += (size_t)snprintf(title + at, sizeof title - at, "%s%s %lld", i ? ", " : "",
                             mesh->axes[i].name, (long long)coords[i]);
    }
    draw_slice(mesh, first, title, width, &text);
  }
  shoal_status_t status = shoal_text_status(&text);
  if (!status && !(*out_text = shoal_arena_strdup(arena, shoal_text_string(&text)))) {
    status = SHOAL_OOM();
  }
  shoal_text_deinit(&text);
  return status;
}
