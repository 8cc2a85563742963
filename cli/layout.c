// shoal layout --shape 10,768 --mesh data=2,tensor=5 --layout tensor:1/64,data:0: who holds which
// elements. Draws values of one or two dims, lists every rank's part; --format json and --batch
// FILE for scripts.
//
// The drawing is exact: along each dim it has one segment per stretch in which nothing changes,
// wide in proportion to its length. Only where that takes more than a page are segments left out,
// and it says so.
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/options.h"
#include "base/status.h"
#include "cli.h"
#include "layout/layout_impl.h"
#include "layout/reduce.h"
#include "planning.h"
#include "shoal/layout.h"

typedef struct layout_options {
  const char *shape, *mesh, *layout, *batch;
  int64_t rank;
  int format;
  bool help;
} layout_options_t;

static const char *const FORMATS[] = {"text", "json", NULL};
static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(layout_options_t, STRING, shape, NULL,
                 "lengths of the dims: 10,768; '' is a scalar"),
    SHOAL_OPTION(layout_options_t, STRING, mesh, "", "axes: data=2,tensor=5"),
    SHOAL_OPTION(layout_options_t, STRING, layout, "", "cuts: tensor:1/64,data:0; '' replicates"),
    SHOAL_OPTION(layout_options_t, INT, rank, "-1", "only the rank at this position; -1: all",
                 .no_environment = true),
    SHOAL_OPTION(layout_options_t, ENUM, format, "text", "text or json", .choices = FORMATS),
    SHOAL_OPTION(layout_options_t, STRING, batch, NULL,
                 "a file of 'shape|mesh|layout' lines; prints one json object per line",
                 .no_environment = true),
    SHOAL_OPTION(layout_options_t, BOOL, help, NULL, "say what the options are", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

// One question, parsed.
typedef struct query {
  shoal_shape_t shape;
  shoal_mesh_t mesh;
  shoal_layout_t layout;
  int64_t first, end;  // positions
  int64_t micros;      // at least 1
} query_t;

static shoal_status_t parse_shape(const char *text, shoal_shape_t *out_shape) {
  shoal_shape_t shape = {0};
  const char *at = text + strspn(text, " ");
  while (*at) {
    char *end;
    if (*at < '0' || *at > '9' || shape.rank == SHOAL_MAX_RANK) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write up to 8 lengths, as in '10,768'",
                              "shape '%s': cannot read '%s'", text, at);
    }
    shape.dims[shape.rank++] = strtoll(at, &end, 10);
    at = end + strspn(end, " ");
    if (*at == ',' && at[1])
      ++at;
    else if (*at)
      return SHOAL_ERROR(INVALID_ARGUMENT, "shape '%s': cannot read '%s'", text, at);
    at += strspn(at, " ");
  }
  *out_shape = shape;
  return NULL;
}

static shoal_status_t make_query(const char *shape, const char *mesh, const char *layout,
                                 int64_t rank, shoal_arena_t *arena, query_t *out) {
  SHOAL_RETURN_IF_ERROR(parse_shape(shape, &out->shape));
  SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(mesh, arena, &out->mesh));
  SHOAL_RETURN_IF_ERROR(shoal_layout_parse(layout, &out->mesh, 1, arena, &out->layout));
  SHOAL_RETURN_IF_ERROR(shoal_layout_check(&out->layout, &out->shape));
  int64_t size = shoal_mesh_size(&out->mesh);
  if (rank < -1 || rank >= size) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "positions count from 0",
                            "--rank %lld: the mesh has %lld ranks", (long long)rank,
                            (long long)size);
  }
  out->first = rank < 0 ? 0 : rank;
  out->end = rank < 0 ? size : rank + 1;
  out->micros = out->mesh.micro > 1 ? out->mesh.micro : 1;
  return NULL;
}

// ---- json ------------------------------------------------------------------------------

static void write_ints(shoal_json_writer_t *w, const char *key, const int64_t *values,
                       int64_t count) {
  shoal_json_begin(w, key, '[', true);
  for (int64_t i = 0; i < count; ++i) shoal_json_int(w, NULL, values[i]);
  shoal_json_end(w, ']');
}

static void write_boxes(shoal_json_writer_t *w, const char *key, int32_t rank,
                        const shoal_box_t *boxes, int64_t count) {
  shoal_json_begin(w, key, '[', true);
  for (int64_t i = 0; i < count; ++i) {
    shoal_json_begin(w, NULL, '{', true);
    write_ints(w, "start", boxes[i].start, rank);
    write_ints(w, "size", boxes[i].size, rank);
    shoal_json_end(w, '}');
  }
  shoal_json_end(w, ']');
}

static void write_partial(shoal_json_writer_t *w, const query_t *q) {
  bool any = false;
  for (int32_t i = 0; i < q->layout.cut_count; ++i) {
    const shoal_cut_t *cut = &q->layout.cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    if (!any) shoal_json_begin(w, "partial", '{', true);
    any = true;
    shoal_json_string(w, shoal_layout_axis_name(&q->mesh, cut->axis),
                      shoal_reduce_name(cut->reduce));
  }
  if (any) shoal_json_end(w, '}');
}

static shoal_status_t write_rank(shoal_json_writer_t *w, const query_t *q, int64_t position,
                                 int64_t micro, shoal_arena_t *arena) {
  shoal_boxes_t boxes;
  const shoal_box_t *list, *halo;
  int64_t count, halo_count;
  SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&q->layout, &q->shape, position, micro, arena, &boxes));
  SHOAL_RETURN_IF_ERROR(shoal_boxes_list(&boxes, arena, &list, &count));
  SHOAL_RETURN_IF_ERROR(shoal_boxes_halo(&boxes, arena, &halo, &halo_count));
  shoal_json_begin(w, NULL, '{', true);
  shoal_json_int(w, "rank", position);
  if (q->micros > 1) shoal_json_int(w, "micro", micro);
  write_boxes(w, "boxes", q->shape.rank, list, count);
  if (halo_count) write_boxes(w, "halo", q->shape.rank, halo, halo_count);
  if (boxes.flat) write_ints(w, "flat", (int64_t[]){boxes.from, boxes.to}, 2);
  write_partial(w, q);
  shoal_json_end(w, '}');
  return NULL;
}

static shoal_status_t print_json(const query_t *q, bool one_line, shoal_arena_t *arena,
                                 shoal_text_t *text) {
  shoal_json_writer_t w;
  shoal_json_writer_init(text, &w);
  shoal_json_begin(&w, NULL, '{', one_line);
  shoal_json_begin(&w, "ranks", '[', one_line);
  for (int64_t p = q->first; p < q->end; ++p) {
    for (int64_t m = 0; m < q->micros; ++m) SHOAL_RETURN_IF_ERROR(write_rank(&w, q, p, m, arena));
  }
  shoal_json_end(&w, ']');
  shoal_json_end(&w, '}');
  return NULL;
}

// ---- drawing ---------------------------------------------------------------------------

enum { WIDTH = 80, HEIGHT = 16, LABEL = 6 };

typedef struct bounds {
  int64_t *items;  // ascending, different, from 0 to the dim's length
  int64_t count;   // segments: one less than items
  bool dropped;
} bounds_t;

static int compare_ints(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

typedef SHOAL_VEC(int64_t) ints_t;

// Where along `dim` something changes in this part.
static bool add_bounds(const shoal_boxes_t *boxes, int32_t dim, shoal_arena_t *arena, ints_t *out) {
  const shoal_dim_part_t *part = &boxes->dims[dim];
  bool ok = true;
  for (int32_t i = 0; i < part->own_count; ++i) {
    ok = ok && SHOAL_PUSH(arena, out, part->own[i].start);
    ok = ok && SHOAL_PUSH(arena, out, part->own[i].start + part->own[i].size);
  }
  if (!boxes->flat || part->own_size == 0) return ok;
  // A flat range ends inside a row: rows and columns of its ends, as packed positions.
  bool last = dim == boxes->whole.rank - 1;
  int64_t columns = boxes->dims[boxes->whole.rank - 1].own_size, ends[] = {boxes->from, boxes->to};
  for (int e = 0; e < 2 && columns; ++e) {
    for (int64_t up = 0; up < (last ? 1 : 2); ++up) {
      int64_t packed = last ? ends[e] % columns : ends[e] / columns + up;
      for (int32_t i = 0; i < part->own_count && packed >= 0; packed -= part->own[i++].size) {
        if (packed < part->own[i].size)
          ok = ok && SHOAL_PUSH(arena, out, part->own[i].start + packed);
        if (packed < part->own[i].size) break;
      }
    }
  }
  return ok;
}

static shoal_status_t find_bounds(const query_t *q, const shoal_boxes_t *parts, int32_t dim,
                                  int64_t most, shoal_arena_t *arena, bounds_t *out) {
  ints_t all = {0};
  bool ok = SHOAL_PUSH(arena, &all, 0) && SHOAL_PUSH(arena, &all, q->shape.dims[dim]);
  for (int64_t p = q->first; p < q->end; ++p) ok = ok && add_bounds(&parts[p], dim, arena, &all);
  if (!ok) return SHOAL_OOM();
  qsort(all.items, (size_t)all.count, sizeof *all.items, compare_ints);
  int64_t kept = 0;
  for (int64_t i = 0; i < all.count; ++i) {
    if (!kept || all.items[i] != all.items[kept - 1]) all.items[kept++] = all.items[i];
  }
  *out = (bounds_t){all.items, kept - 1, false};
  if (out->count <= most) return NULL;
  for (int64_t i = 0; i <= most; ++i) all.items[i] = all.items[i * out->count / most];
  out->count = most;
  out->dropped = true;
  return NULL;
}

static bool owns(const shoal_boxes_t *boxes, const int64_t *index) {
  int64_t packed = 0;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    const shoal_dim_part_t *part = &boxes->dims[d];
    int64_t local = -1, before = 0;
    for (int32_t i = 0; i < part->own_count; before += part->own[i++].size) {
      int64_t offset = index[d] - part->own[i].start;
      if (offset >= 0 && offset < part->own[i].size) local = before + offset;
    }
    if (local < 0) return false;
    packed = packed * part->own_size + local;
  }
  return !boxes->flat || (packed >= boxes->from && packed < boxes->to);
}

// The ranks that own an element, as many as fit: "0,5", "0,5+", "." for none.
static void label(const query_t *q, const shoal_boxes_t *parts, const int64_t *index, int64_t width,
                  char *out) {
  int64_t length = 0;
  for (int64_t p = q->first; p < q->end; ++p) {
    if (!owns(&parts[p], index)) continue;
    char number[32];
    int64_t more = snprintf(number, sizeof number, "%s%lld", length ? "," : "", (long long)p);
    if (length + more + (length ? 1 : 0) > width) {
      out[length++] = '+';
      break;
    }
    memcpy(out + length, number, (size_t)more);
    length += more;
  }
  if (length == 0) out[length++] = '.';
  out[length] = 0;
}

static shoal_status_t draw(const query_t *q, const shoal_boxes_t *parts, shoal_arena_t *arena,
                           shoal_text_t *text) {
  int32_t last = q->shape.rank - 1;
  bounds_t rows = {(int64_t[]){0, 1}, 1, false}, columns;
  int64_t room = WIDTH - LABEL - 4, widths[WIDTH];
  int64_t least = 2 + snprintf(NULL, 0, "%lld", (long long)q->end - 1);  // a rank between blanks
  SHOAL_RETURN_IF_ERROR(find_bounds(q, parts, last, room / (least + 1), arena, &columns));
  if (last == 1) SHOAL_RETURN_IF_ERROR(find_bounds(q, parts, 0, HEIGHT, arena, &rows));
  if (rows.count == 0 || columns.count == 0) return NULL;
  // Every column gets what a rank needs and a bar; the rest is shared in proportion.
  int64_t spare = room - columns.count * (least + 1), length = q->shape.dims[last];
  for (int64_t i = 0; i < columns.count; ++i) {
    double share = (double)(columns.items[i + 1] - columns.items[i]) / (double)length;
    widths[i] = least + (int64_t)(share * (double)spare);
  }
  shoal_text_addf(text, "%*s", LABEL + 2, "");
  for (int64_t i = 0; i < columns.count; ++i) {
    char number[32];
    int wrote = snprintf(number, sizeof number, "%lld", (long long)columns.items[i]);
    shoal_text_addf(text, "%-*s", (int)widths[i] + 1, wrote <= widths[i] ? number : "");
  }
  shoal_text_addf(text, "%lld\n", (long long)length);
  for (int64_t r = 0; r <= rows.count; ++r) {
    shoal_text_addf(text, "%*s +", LABEL, "");
    for (int64_t i = 0; i < columns.count; ++i) {
      for (int64_t k = 0; k < widths[i]; ++k) shoal_text_add(text, "-");
      shoal_text_add(text, "+");
    }
    shoal_text_add(text, "\n");
    if (r == rows.count) break;
    if (last == 1)
      shoal_text_addf(text, "%*lld |", LABEL, (long long)rows.items[r]);
    else
      shoal_text_addf(text, "%*s |", LABEL, "");
    for (int64_t i = 0; i < columns.count; ++i) {
      int64_t index[2] = {last == 1 ? rows.items[r] : columns.items[i], columns.items[i]};
      char owner[WIDTH + 2];
      label(q, parts, index, widths[i] - 1, owner);
      shoal_text_addf(text, " %-*s|", (int)widths[i] - 1, owner);
    }
    shoal_text_add(text, "\n");
  }
  if (rows.dropped || columns.dropped) {
    shoal_text_add(text, "(too fine to draw: a sample; the table has it all)\n");
  }
  return NULL;
}

// ---- table -----------------------------------------------------------------------------

static void add_product(const shoal_boxes_t *boxes, bool held, shoal_text_t *text) {
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    const shoal_dim_part_t *part = &boxes->dims[d];
    int32_t count = held ? part->held_count : part->own_count;
    if (d) shoal_text_add(text, " x ");
    for (int32_t i = 0; i < count; ++i) {
      const shoal_interval_t *interval = held ? &part->held[i] : &part->own[i];
      shoal_text_addf(text, "%s[%lld,%lld)", i ? "+" : "", (long long)interval->start,
                      (long long)(interval->start + interval->size));
    }
    if (count == 0) shoal_text_add(text, "nothing");
  }
  if (boxes->whole.rank == 0) shoal_text_add(text, "the scalar");
}

static void add_row(const query_t *q, int64_t position, const shoal_boxes_t *boxes,
                    shoal_text_t *text) {
  int64_t coords[SHOAL_MAX_AXES], owned = 1, held = 1;
  shoal_mesh_coords(&q->mesh, position, coords);
  shoal_text_addf(text, "rank %lld", (long long)position);
  for (int32_t i = 0; i < q->mesh.axis_count; ++i) {
    shoal_text_addf(text, " %s=%lld", q->mesh.axes[i].name, (long long)coords[i]);
  }
  for (int32_t d = 0; d < q->shape.rank; ++d) {
    owned *= boxes->dims[d].own_size;
    held *= boxes->dims[d].held_size;
  }
  shoal_text_addf(text,
                  ": owns %lld: ", (long long)(boxes->flat ? boxes->to - boxes->from : owned));
  if (boxes->flat) {
    shoal_text_addf(text, "flat [%lld,%lld) of ", (long long)boxes->from, (long long)boxes->to);
  }
  add_product(boxes, false, text);
  if (held != owned) {
    shoal_text_addf(text, "; holds %lld: ", (long long)held);
    add_product(boxes, true, text);
  }
  shoal_text_add(text, "\n");
}

static shoal_status_t print_text(const query_t *q, shoal_arena_t *arena, shoal_text_t *text) {
  const char *mesh, *layout;
  char shape[192];
  shoal_shape_format(&q->shape, shape, sizeof shape);
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&q->mesh, arena, &mesh));
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(&q->layout, arena, &layout));
  shoal_text_addf(text, "%s of %s on %s\n", layout[0] ? layout : "replicated", shape,
                  mesh[0] ? mesh : "one rank");
  shoal_boxes_t *parts = SHOAL_NEW(arena, shoal_boxes_t, q->end);
  if (!parts) return SHOAL_OOM();
  for (int64_t m = 0; m < q->micros; ++m) {
    if (q->micros > 1) shoal_text_addf(text, "\nmicro-batch %lld\n", (long long)m);
    for (int64_t p = q->first; p < q->end; ++p) {
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&q->layout, &q->shape, p, m, arena, &parts[p]));
    }
    if (q->shape.rank == 1 || q->shape.rank == 2)
      SHOAL_RETURN_IF_ERROR(draw(q, parts, arena, text));
    for (int64_t p = q->first; p < q->end; ++p) add_row(q, p, &parts[p], text);
  }
  for (int32_t i = 0; i < q->layout.cut_count; ++i) {
    const shoal_cut_t *cut = &q->layout.cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    shoal_text_addf(text, "to be joined along %s by %s\n",
                    shoal_layout_axis_name(&q->mesh, cut->axis), shoal_reduce_name(cut->reduce));
  }
  return NULL;
}

// ---- batch -----------------------------------------------------------------------------

static void print_error(shoal_status_t status, shoal_text_t *text) {
  shoal_json_writer_t w;
  shoal_json_writer_init(text, &w);
  shoal_json_begin(&w, NULL, '{', true);
  shoal_json_string(&w, "error", shoal_code_name(shoal_status_code(status)));
  shoal_json_string(&w, "message", shoal_status_message(status));
  shoal_json_end(&w, '}');
  shoal_status_free(status);
}

static shoal_status_t flush(shoal_text_t *text, FILE *out) {
  SHOAL_RETURN_IF_ERROR(shoal_text_status(text));
  if (text->length && fwrite(text->data, 1, text->length, out) != text->length) {
    return SHOAL_ERROR(IO, "cannot write the result");
  }
  text->length = 0;
  return NULL;
}

// A line that is wrong gives an object with "error" and "message"; the others are answered.
static shoal_status_t batch_line(char *line, shoal_text_t *text) {
  char *mesh = strchr(line, '|'), *layout = mesh ? strchr(mesh + 1, '|') : NULL;
  shoal_arena_t arena;
  query_t query;
  if (!layout) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write shape|mesh|layout", "batch line '%s'", line);
  }
  *mesh++ = *layout++ = 0;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = make_query(line, mesh, layout, -1, &arena, &query);
  if (!status) status = print_json(&query, true, &arena, text);
  shoal_arena_deinit(&arena);
  if (status && shoal_status_code(status) != SHOAL_OUT_OF_MEMORY) {
    print_error(status, text);
    status = NULL;
  }
  return status;
}

static shoal_status_t run_batch(const char *path, shoal_arena_t *arena, shoal_text_t *text,
                                FILE *out) {
  const char *data;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(path, arena, &data, &size));
  char *at = shoal_arena_strdup(arena, data);
  if (!at) return SHOAL_OOM();
  while (*at) {
    size_t length = strcspn(at, "\n");
    char *next = at + length + (at[length] == '\n');
    at[length] = 0;
    if (length) SHOAL_RETURN_IF_ERROR(batch_line(at, text));
    SHOAL_RETURN_IF_ERROR(flush(text, out));
    at = next;
  }
  return NULL;
}

// ---- command ---------------------------------------------------------------------------

static shoal_status_t run(int argc, char **argv, shoal_arena_t *arena, shoal_text_t *text,
                          FILE *out) {
  layout_options_t options = {0};
  shoal_words_t words;
  query_t query;
  SHOAL_RETURN_IF_ERROR(cli_options("layout", "--shape DIMS --mesh MESH --layout LAYOUT", OPTIONS,
                                    OPTION_COUNT, argc, argv, arena, &options, &words, out));
  if (options.help) return NULL;
  if (words.count) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give --shape, --mesh and --layout",
                            "layout takes no argument '%s'", words.items[0]);
  }
  if (options.batch) return run_batch(options.batch, arena, text, out);
  if (!options.shape) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "as in --shape 10,768 --mesh data=2 --layout data:0",
                            "--shape is missing");
  }
  SHOAL_RETURN_IF_ERROR(
      make_query(options.shape, options.mesh, options.layout, options.rank, arena, &query));
  if (options.format)
    SHOAL_RETURN_IF_ERROR(print_json(&query, false, arena, text));
  else
    SHOAL_RETURN_IF_ERROR(print_text(&query, arena, text));
  return flush(text, out);
}

shoal_status_t cli_layout(int argc, char **argv, FILE *out) {
  if (argc > 0 && strcmp(argv[0], "layout") == 0) {  // the sub-command's name may come along
    --argc;
    ++argv;
  }
  shoal_arena_t arena;
  shoal_text_t text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_status_t status = run(argc, argv, &arena, &text, out);
  shoal_text_deinit(&text);
  shoal_arena_deinit(&arena);
  return status;
}
