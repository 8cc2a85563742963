// shoal layout --shape 10,768 --mesh data=2,tensor=5 --layout tensor:1/64,data:0: who holds which
// elements. Draws values of one or two dims, lists every rank's part; --format json and --batch
// FILE for scripts.
//
// The drawing is exact: along each dim it has one segment per stretch in which nothing changes,
// wide in proportion to its length. Only where that takes more than a page are segments left out,
// and it says so.
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "print.h"
#include "shoal/layout.h"
#include "shoal/options.h"

typedef struct layout_options {
  const char *shape, *mesh, *layout, *batch;
  int64_t rank;
  int format;
  bool help;
} layout_options_t;

static const char *const FORMATS[] = {"text", "json", NULL};
static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(layout_options_t, STRING, shape, NULL,
                 "lengths of the dims: 10,768; '' is a scalar", .argument = "WORD"),
    SHOAL_OPTION(layout_options_t, STRING, mesh, "", "axes: data=2,tensor=5", .argument = "WORD"),
    SHOAL_OPTION(layout_options_t, STRING, layout, "", "cuts: tensor:1/64,data:0; '' replicates",
                 .argument = "WORD"),
    SHOAL_OPTION(layout_options_t, INT, rank, "-1", "only this rank; -1: all",
                 .no_environment = true),
    SHOAL_OPTION(layout_options_t, ENUM, format, "text", "text or json", .choices = FORMATS),
    SHOAL_OPTION(layout_options_t, STRING, batch, NULL,
                 "a file of 'shape|mesh|layout' lines; prints one json object per line",
                 .argument = "FILE", .no_environment = true),
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
  const int64_t size = shoal_mesh_size(&out->mesh);
  const int64_t position =
      rank < 0 || rank > INT32_MAX ? -1 : shoal_mesh_position(&out->mesh, (int32_t)rank);
  if (rank != -1 && position < 0) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "its ranks are those behind '@', else 0, 1, 2 ...",
                            "--rank %lld: the mesh has %lld ranks, and not this one",
                            (long long)rank, (long long)size);
  }
  out->first = position < 0 ? 0 : position;
  out->end = position < 0 ? size : position + 1;
  out->micros = out->mesh.micro > 1 ? out->mesh.micro : 1;
  return NULL;
}

// ---- json ------------------------------------------------------------------------------

// Everything is worked out before anything is printed, so that an error leaves no half object.
typedef struct rank_part {
  shoal_boxes_t boxes;
  const shoal_box_t *own, *halo;
  int64_t own_count, halo_count;
} rank_part_t;

static void print_ints(const char *key, const int64_t *values, int64_t count, FILE *out) {
  fprintf(out, "\"%s\": [", key);
  for (int64_t i = 0; i < count; ++i) fprintf(out, "%s%lld", i ? ", " : "", (long long)values[i]);
  fputc(']', out);
}

static void print_boxes(const char *key, int32_t rank, const shoal_box_t *boxes, int64_t count,
                        FILE *out) {
  fprintf(out, ", \"%s\": [", key);
  for (int64_t i = 0; i < count; ++i) {
    fprintf(out, i ? ", {" : "{");
    print_ints("start", boxes[i].start, rank, out);
    fprintf(out, ", ");
    print_ints("size", boxes[i].size, rank, out);
    fputc('}', out);
  }
  fputc(']', out);
}

static const char *axis_name(const query_t *q, const shoal_cut_t *cut) {
  return cut->axis == SHOAL_AXIS_MICRO ? "micro" : q->mesh.axes[cut->axis].name;
}

static void print_partial(const query_t *q, FILE *out) {
  bool any = false;
  for (int32_t i = 0; i < q->layout.cut_count; ++i) {
    const shoal_cut_t *cut = &q->layout.cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    fprintf(out, any ? ", " : ", \"partial\": {");
    any = true;
    cli_print_json(axis_name(q, cut), out);
    fprintf(out, ": \"%s\"", shoal_reduce_name(cut->reduce));
  }
  if (any) fputc('}', out);
}

static void print_rank(const query_t *q, int64_t position, int64_t micro, const rank_part_t *part,
                       FILE *out) {
  fprintf(out, "{\"rank\": %d", shoal_mesh_rank(&q->mesh, position));
  if (q->micros > 1) fprintf(out, ", \"micro\": %lld", (long long)micro);
  print_boxes("boxes", q->shape.rank, part->own, part->own_count, out);
  if (part->halo_count) print_boxes("halo", q->shape.rank, part->halo, part->halo_count, out);
  if (part->boxes.flat) {
    fprintf(out, ", ");
    print_ints("flat", (int64_t[]){part->boxes.from, part->boxes.to}, 2, out);
  }
  print_partial(q, out);
  fputc('}', out);
}

static shoal_status_t print_json(const query_t *q, bool one_line, shoal_arena_t *arena, FILE *out) {
  rank_part_t *parts = SHOAL_NEW(arena, rank_part_t, (q->end - q->first) * q->micros),
              *part = parts;
  if (!parts) return SHOAL_OOM();
  for (int64_t p = q->first; p < q->end; ++p) {
    for (int64_t m = 0; m < q->micros; ++m, ++part) {
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&q->layout, &q->shape, p, m, arena, &part->boxes));
      SHOAL_RETURN_IF_ERROR(shoal_boxes_list(&part->boxes, arena, &part->own, &part->own_count));
      SHOAL_RETURN_IF_ERROR(shoal_boxes_halo(&part->boxes, arena, &part->halo, &part->halo_count));
    }
  }
  fprintf(out, "{\"ranks\": [");
  part = parts;
  for (int64_t p = q->first; p < q->end; ++p) {
    for (int64_t m = 0; m < q->micros; ++m, ++part) {
      fprintf(out, "%s%s", part == parts ? "" : one_line ? ", " : ",", one_line ? "" : "\n  ");
      print_rank(q, p, m, part, out);
    }
  }
  fprintf(out, one_line ? "]}\n" : "\n]}\n");
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

// Where along `dim` something changes in this part: at the ends of its intervals, and at up to
// FLAT_BOUNDS more places if it is flat. Returns how many there are.
enum { FLAT_BOUNDS = 4 };
static int64_t add_bounds(const shoal_boxes_t *boxes, int32_t dim, int64_t *out) {
  const shoal_dim_part_t *part = &boxes->dims[dim];
  int64_t count = 0;
  for (int32_t i = 0; i < part->own_count; ++i) {
    out[count++] = part->own[i].start;
    out[count++] = part->own[i].start + part->own[i].size;
  }
  if (!boxes->flat || part->own_size == 0) return count;
  // A flat range ends inside a row: rows and columns of its ends, as packed positions.
  bool last = dim == boxes->whole.rank - 1;
  int64_t columns = boxes->dims[boxes->whole.rank - 1].own_size, ends[] = {boxes->from, boxes->to};
  for (int e = 0; e < 2 && columns; ++e) {
    for (int64_t up = 0; up < (last ? 1 : 2); ++up) {
      int64_t packed = last ? ends[e] % columns : ends[e] / columns + up;
      for (int32_t i = 0; i < part->own_count && packed >= 0; packed -= part->own[i++].size) {
        if (packed >= part->own[i].size) continue;
        out[count++] = part->own[i].start + packed;
        break;
      }
    }
  }
  return count;
}

static shoal_status_t find_bounds(const query_t *q, const shoal_boxes_t *parts, int32_t dim,
                                  int64_t most, shoal_arena_t *arena, bounds_t *out) {
  int64_t room = 2, count = 0, kept = 0;
  for (int64_t p = q->first; p < q->end; ++p)
    room += 2 * parts[p].dims[dim].own_count + FLAT_BOUNDS;
  int64_t *all = SHOAL_NEW(arena, int64_t, room);
  if (!all) return SHOAL_OOM();
  all[count++] = 0;
  all[count++] = q->shape.dims[dim];
  for (int64_t p = q->first; p < q->end; ++p) count += add_bounds(&parts[p], dim, all + count);
  qsort(all, (size_t)count, sizeof *all, compare_ints);
  for (int64_t i = 0; i < count; ++i) {
    if (!kept || all[i] != all[kept - 1]) all[kept++] = all[i];
  }
  *out = (bounds_t){all, kept - 1, false};
  if (out->count <= most) return NULL;
  for (int64_t i = 0; i <= most; ++i) all[i] = all[i * out->count / most];
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
    int64_t more =
        snprintf(number, sizeof number, "%s%d", length ? "," : "", shoal_mesh_rank(&q->mesh, p));
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
                           FILE *out) {
  int32_t last = q->shape.rank - 1;
  bounds_t rows = {(int64_t[]){0, 1}, 1, false}, columns = {0};
  int64_t room = WIDTH - LABEL - 4, widths[WIDTH];
  int32_t largest = 0;
  for (int64_t p = q->first; p < q->end; ++p) {
    if (shoal_mesh_rank(&q->mesh, p) > largest) largest = shoal_mesh_rank(&q->mesh, p);
  }
  int64_t least = 2 + snprintf(NULL, 0, "%d", largest);  // a rank between blanks
  SHOAL_RETURN_IF_ERROR(find_bounds(q, parts, last, room / (least + 1), arena, &columns));
  if (last == 1) SHOAL_RETURN_IF_ERROR(find_bounds(q, parts, 0, HEIGHT, arena, &rows));
  if (rows.count == 0 || columns.count == 0) return NULL;
  // Every column gets what a rank needs and a bar; the rest is shared in proportion.
  int64_t spare = room - columns.count * (least + 1), length = q->shape.dims[last];
  for (int64_t i = 0; i < columns.count; ++i) {
    double share = (double)(columns.items[i + 1] - columns.items[i]) / (double)length;
    widths[i] = least + (int64_t)(share * (double)spare);
  }
  fprintf(out, "%*s", LABEL + 2, "");
  for (int64_t i = 0; i < columns.count; ++i) {
    char number[32];
    int wrote = snprintf(number, sizeof number, "%lld", (long long)columns.items[i]);
    fprintf(out, "%-*s", (int)widths[i] + 1, wrote <= widths[i] ? number : "");
  }
  fprintf(out, "%lld\n", (long long)length);
  for (int64_t r = 0; r <= rows.count; ++r) {
    fprintf(out, "%*s +", LABEL, "");
    for (int64_t i = 0; i < columns.count; ++i) {
      for (int64_t k = 0; k < widths[i]; ++k) fputs("-", out);
      fputs("+", out);
    }
    fputs("\n", out);
    if (r == rows.count) break;
    if (last == 1)
      fprintf(out, "%*lld |", LABEL, (long long)rows.items[r]);
    else
      fprintf(out, "%*s |", LABEL, "");
    for (int64_t i = 0; i < columns.count; ++i) {
      int64_t index[2] = {last == 1 ? rows.items[r] : columns.items[i], columns.items[i]};
      char owner[WIDTH + 2];
      label(q, parts, index, widths[i] - 1, owner);
      fprintf(out, " %-*s|", (int)widths[i] - 1, owner);
    }
    fputs("\n", out);
  }
  if (rows.dropped || columns.dropped) {
    fputs("(too fine to draw: a sample; the table has it all)\n", out);
  }
  return NULL;
}

// ---- table -----------------------------------------------------------------------------

static void add_product(const shoal_boxes_t *boxes, bool held, FILE *out) {
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    const shoal_dim_part_t *part = &boxes->dims[d];
    int32_t count = held ? part->held_count : part->own_count;
    if (d) fputs(" x ", out);
    for (int32_t i = 0; i < count; ++i) {
      const shoal_interval_t *interval = held ? &part->held[i] : &part->own[i];
      fprintf(out, "%s[%lld,%lld)", i ? "+" : "", (long long)interval->start,
              (long long)(interval->start + interval->size));
    }
    if (count == 0) fputs("nothing", out);
  }
  if (boxes->whole.rank == 0) fputs("the scalar", out);
}

static void add_row(const query_t *q, int64_t position, const shoal_boxes_t *boxes, FILE *out) {
  int64_t coords[SHOAL_MAX_AXES], owned = 1, held = 1;
  shoal_mesh_coords(&q->mesh, position, coords);
  fprintf(out, "rank %d", shoal_mesh_rank(&q->mesh, position));
  for (int32_t i = 0; i < q->mesh.axis_count; ++i) {
    fprintf(out, " %s=%lld", q->mesh.axes[i].name, (long long)coords[i]);
  }
  for (int32_t d = 0; d < q->shape.rank; ++d) {
    owned *= boxes->dims[d].own_size;
    held *= boxes->dims[d].held_size;
  }
  fprintf(out, ": owns %lld: ", (long long)(boxes->flat ? boxes->to - boxes->from : owned));
  if (boxes->flat) {
    fprintf(out, "flat [%lld,%lld) of ", (long long)boxes->from, (long long)boxes->to);
  }
  add_product(boxes, false, out);
  if (held != owned) {
    fprintf(out, "; holds %lld: ", (long long)held);
    add_product(boxes, true, out);
  }
  fputs("\n", out);
}

static shoal_status_t print_text(const query_t *q, shoal_arena_t *arena, FILE *out) {
  const char *mesh, *layout;
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&q->mesh, arena, &mesh));
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(&q->layout, arena, &layout));
  fprintf(out, "%s of ", layout[0] ? layout : "replicated");
  cli_print_shape(&q->shape, out);
  fprintf(out, " on %s\n", mesh[0] ? mesh : "one rank");
  shoal_boxes_t *parts = SHOAL_NEW(arena, shoal_boxes_t, q->end);
  if (!parts) return SHOAL_OOM();
  for (int64_t m = 0; m < q->micros; ++m) {
    if (q->micros > 1) fprintf(out, "\nmicro-batch %lld\n", (long long)m);
    for (int64_t p = q->first; p < q->end; ++p) {
      SHOAL_RETURN_IF_ERROR(shoal_layout_boxes(&q->layout, &q->shape, p, m, arena, &parts[p]));
    }
    if (q->shape.rank == 1 || q->shape.rank == 2) SHOAL_RETURN_IF_ERROR(draw(q, parts, arena, out));
    for (int64_t p = q->first; p < q->end; ++p) add_row(q, p, &parts[p], out);
  }
  for (int32_t i = 0; i < q->layout.cut_count; ++i) {
    const shoal_cut_t *cut = &q->layout.cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    fprintf(out, "to be joined along %s by %s\n", axis_name(q, cut),
            shoal_reduce_name(cut->reduce));
  }
  return NULL;
}

// ---- batch -----------------------------------------------------------------------------

static void print_error(shoal_status_t status, FILE *out) {
  fprintf(out, "{\"error\": ");
  cli_print_json(shoal_code_name(shoal_status_code(status)), out);
  fprintf(out, ", \"message\": ");
  cli_print_json(shoal_status_message(status), out);
  fprintf(out, "}\n");
  shoal_status_free(status);
}

// A line that is wrong gives an object with "error" and "message"; the others are answered.
static shoal_status_t batch_line(char *line, FILE *out) {
  char *mesh = strchr(line, '|'), *layout = mesh ? strchr(mesh + 1, '|') : NULL;
  shoal_arena_t *arena;
  query_t query;
  if (!layout) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write shape|mesh|layout", "batch line '%s'", line);
  }
  *mesh++ = *layout++ = 0;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_status_t status = make_query(line, mesh, layout, -1, arena, &query);
  if (!status) status = print_json(&query, true, arena, out);
  shoal_arena_free(arena);
  if (status && shoal_status_code(status) != SHOAL_OUT_OF_MEMORY) {
    print_error(status, out);
    status = NULL;
  }
  return status;
}

static shoal_status_t run_batch(const char *path, shoal_arena_t *arena, FILE *out) {
  const char *data;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(path, arena, &data, &size));
  char *at = cli_format(arena, "%s", data);
  if (!at) return SHOAL_OOM();
  while (*at) {
    size_t length = strcspn(at, "\n");
    char *next = at + length + (at[length] == '\n');
    at[length] = 0;
    if (length) SHOAL_RETURN_IF_ERROR(batch_line(at, out));
    at = next;
  }
  return NULL;
}

// ---- command ---------------------------------------------------------------------------

static shoal_status_t run(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
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
  if (options.batch) return run_batch(options.batch, arena, out);
  if (!options.shape) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "as in --shape 10,768 --mesh data=2 --layout data:0",
                            "--shape is missing");
  }
  SHOAL_RETURN_IF_ERROR(
      make_query(options.shape, options.mesh, options.layout, options.rank, arena, &query));
  return options.format ? print_json(&query, false, arena, out) : print_text(&query, arena, out);
}

shoal_status_t cli_layout(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  if (argc > 0 && strcmp(argv[0], "layout") == 0) {  // the sub-command's name may come along
    --argc;
    ++argv;
  }
  return run(argc, argv, arena, out);
}
