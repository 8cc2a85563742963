// What every rank must bring alike: the registered ops, the model with its seed or the program, and
// the options that decide what is planned. Each rank compares hashes of its own with rank 0's; only
// when one differs is anything printed, and then the first line in which two texts part is named.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"
#include "session/session_impl.h"

// In the order in which a difference is looked for: other ops make another model.
typedef enum section { OPS, MATTER, OPTIONS, SECTIONS } section_t;

typedef struct digest {
  uint64_t is_program, seed, hashes[SECTIONS];
} digest_t;

// ---- texts ----------------------------------------------------------------------------

static int by_name(const void *a, const void *b) {
  const shoal_op_t *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static void add_names(shoal_text_t *text, int32_t count, const char *const *names) {
  shoal_text_add(text, "(");
  for (int32_t i = 0; i < count; ++i) shoal_text_addf(text, "%s%s", i ? ", " : "", names[i]);
  shoal_text_add(text, ")");
}

// A line per op, whatever the order of registering: what a program's text relies on.
static shoal_status_t print_ops(const shoal_registry_t *registry, shoal_arena_t *arena,
                                shoal_text_t *text) {
  const int64_t count = registry ? shoal_registry_count(registry) : 0;
  const shoal_op_t **ops = SHOAL_NEW(arena, const shoal_op_t *, count);
  if (!ops) return SHOAL_OOM();
  for (int64_t i = 0; i < count; ++i) ops[i] = shoal_registry_op(registry, i);
  qsort(ops, (size_t)count, sizeof *ops, by_name);
  for (int64_t i = 0; i < count; ++i) {
    const shoal_op_t *op = ops[i];
    shoal_text_add(text, op->name);
    add_names(text, op->input_count, op->inputs);
    shoal_text_add(text, op->variadic ? "... -> " : " -> ");
    add_names(text, op->output_count, op->outputs);
    if (op->output_number) shoal_text_add(text, "...");
    if (op->optional) shoal_text_addf(text, " optional %d", (int)op->optional);
    if (op->window) shoal_text_addf(text, " window %s", op->window);
    if (op->spare) shoal_text_addf(text, " spare %s", op->spare);
    for (int32_t k = 0; k < op->attr_count; ++k) {
      const shoal_attr_schema_t *attr = &op->attrs[k];
      shoal_text_addf(text, " %s:%d:%d:%d:%d", attr->name, (int)attr->kind, (int)attr->role,
                      (int)attr->operand, (int)attr->dim);
    }
    for (int32_t k = 0; k < op->overwrite_count; ++k)
      shoal_text_addf(text, " %d>%d", (int)op->overwrites[k].output, (int)op->overwrites[k].input);
    shoal_text_add(text, op->random ? " random\n" : "\n");
  }
  return NULL;
}

static const char *word(const char *choice) {
  return choice && choice[0] ? choice : "none";
}

// Those that decide what all ranks run. Of what is planned, only rank 0's cluster file is read.
static void print_options(const shoal_session_source_t *source, shoal_text_t *text) {
  const shoal_parallelize_options_t *o = source->options;
  shoal_text_addf(text, "dry_run %s\n", o->dry_run ? "true" : "false");
  if (!source->model) return;
  for (int64_t i = 0; o->fetches && o->fetches[i]; ++i) {
    shoal_text_addf(text, "fetches %s\n", o->fetches[i]);
  }
  shoal_text_addf(text, "recompute %s\noffload %s\ncompress %s\n", word(o->choices.recompute),
                  word(o->choices.offload), word(o->choices.compress));
  if (o->plan) {
    shoal_text_addf(text, "plan %s\n", o->plan);
    return;
  }
  shoal_text_addf(text, "strategy %s\nmesh %s\ncluster %s\n", o->strategy ? o->strategy : "auto",
                  o->mesh ? o->mesh : "by default", o->cluster ? o->cluster : "none");
  for (int64_t i = 0; i < o->layout_count; ++i) {
    shoal_text_addf(text, "layouts %s: %s\n", o->layouts[i].pattern, o->layouts[i].value);
  }
  for (int64_t i = 0; i < o->decision_count; ++i) {
    shoal_text_addf(text, "decision %s %s %s\n", o->decisions[i].kind, o->decisions[i].pattern,
                    o->decisions[i].choice);
  }
}

static shoal_status_t print(const shoal_session_t *session, const shoal_session_source_t *source,
                            section_t section, shoal_arena_t *arena, const char **out_text) {
  if (section == MATTER) {
    return source->model ? shoal_model_print(source->model, arena, out_text)
                         : shoal_program_print(source->program, arena, out_text);
  }
  shoal_text_t text;
  shoal_text_init(session->allocator, &text);
  shoal_status_t status = NULL;
  if (section == OPS) {
    status = print_ops(source->model ? source->model->registry : NULL, arena, &text);
  } else {
    print_options(source, &text);
  }
  return shoal_text_close(&text, status, arena, out_text);
}

// ---- hashes ---------------------------------------------------------------------------

static shoal_status_t find_digest(const shoal_session_t *session,
                                  const shoal_session_source_t *source, shoal_arena_t *arena,
                                  digest_t *out_digest) {
  *out_digest = (digest_t){.is_program = !source->model, .seed = session->seed};
  for (section_t s = 0; s < SECTIONS; ++s) {
    if (s == MATTER && source->model) {
      out_digest->hashes[s] = shoal_model_hash(source->model);
      continue;
    }
    const char *text;
    SHOAL_RETURN_IF_ERROR(print(session, source, s, arena, &text));
    out_digest->hashes[s] = shoal_hash_string(SHOAL_HASH_START, text);
  }
  return NULL;
}

// ---- who differs, in what and where ---------------------------------------------------

// The line that holds `at`, or what is behind it if the line is long.
static int line_around(const char *text, const char *at, const char **out_line) {
  const char *start = at;
  while (start > text && start[-1] != '\n' && at - start < 60) --start;
  while (*start == ' ') ++start;
  *out_line = start;
  int length = (int)strcspn(start, "\n");
  return length < 100 ? length : 100;
}

static shoal_status_t lines_differ(int32_t rank, const char *what, const char *hint,
                                   const char *mine, const char *theirs) {
  int64_t line = 1, i = 0;
  for (; mine[i] && mine[i] == theirs[i]; ++i) line += mine[i] == '\n';
  const char *my_line, *their_line;
  const int my_length = line_around(mine, mine + i, &my_line);
  const int their_length = line_around(theirs, theirs + i, &their_line);
  return SHOAL_ERROR_HINT(MISMATCH, hint,
                          "the ranks' %s differ: line %lld of rank %d's is '%.*s', of rank 0's "
                          "'%.*s'",
                          what, (long long)line, rank, my_length, my_line, their_length,
                          their_line);
}

static shoal_status_t name_difference(int32_t rank, const digest_t *mine, const digest_t *theirs,
                                      const char *const *my_texts, const char *const *their_texts) {
  if (mine->is_program != theirs->is_program) {
    return SHOAL_ERROR_HINT(MISMATCH, "call the same function on every rank",
                            "rank %d makes a session from a %s, rank 0 from a %s", rank,
                            mine->is_program ? "program" : "model",
                            theirs->is_program ? "program" : "model");
  }
  if (mine->hashes[OPS] != theirs->hashes[OPS]) {
    return lines_differ(rank, "registered ops", "register the same ops on every rank",
                        my_texts[OPS], their_texts[OPS]);
  }
  if (mine->seed != theirs->seed) {
    return SHOAL_ERROR_HINT(MISMATCH, "give every rank's model the same seed",
                            "the ranks' models differ: rank %d's has seed %lld, rank 0's %lld",
                            rank, (long long)mine->seed, (long long)theirs->seed);
  }
  if (mine->hashes[MATTER] != theirs->hashes[MATTER]) {
    return mine->is_program ? lines_differ(rank, "programs", "give every rank the same program",
                                           my_texts[MATTER], their_texts[MATTER])
                            : lines_differ(rank, "models", "build the same model on every rank",
                                           my_texts[MATTER], their_texts[MATTER]);
  }
  return lines_differ(rank, "options", "give every rank the same options", my_texts[OPTIONS],
                      their_texts[OPTIONS]);
}

// Rank 0's texts to all.
static shoal_status_t get_texts(shoal_session_t *session, const char *const *mine,
                                shoal_arena_t *arena, const char **theirs) {
  for (section_t s = 0; s < SECTIONS; ++s) {
    int64_t size = (int64_t)strlen(mine[s]) + 1;
    SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, &size, sizeof size, 0));
    char *text = shoal_arena_alloc(arena, (size_t)size, 1);
    SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, text ? NULL : SHOAL_OOM()));
    if (shoal_world_rank(session->world) == 0) memcpy(text, mine[s], (size_t)size);
    SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, text, size, 0));
    theirs[s] = text;
  }
  return NULL;
}

static shoal_status_t explain(shoal_session_t *session, const shoal_session_source_t *source,
                              const digest_t *mine, const digest_t *theirs, shoal_arena_t *arena) {
  const char *my_texts[SECTIONS] = {0}, *their_texts[SECTIONS];
  shoal_status_t status = NULL;
  for (section_t s = 0; s < SECTIONS && !status; ++s) {
    status = print(session, source, s, arena, &my_texts[s]);
  }
  SHOAL_RETURN_IF_ERROR(shoal_world_agree(session->world, status));
  SHOAL_RETURN_IF_ERROR(get_texts(session, my_texts, arena, their_texts));
  if (memcmp(mine, theirs, sizeof *mine) != 0) {
    status = name_difference(shoal_world_rank(session->world), mine, theirs, my_texts, their_texts);
  }
  return shoal_world_agree(session->world, status);
}

static shoal_status_t compare(shoal_session_t *session, const shoal_session_source_t *source,
                              shoal_arena_t *arena) {
  digest_t mine, theirs;
  SHOAL_RETURN_IF_ERROR(
      shoal_world_agree(session->world, find_digest(session, source, arena, &mine)));
  theirs = mine;
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(session->everyone, &theirs, sizeof theirs, 0));
  int32_t differs = memcmp(&mine, &theirs, sizeof mine) != 0;
  SHOAL_RETURN_IF_ERROR(
      shoal_all_reduce(session->everyone, SHOAL_I32, SHOAL_REDUCE_MAX, 1, &differs, &differs));
  return differs ? explain(session, source, &mine, &theirs, arena) : NULL;
}

shoal_status_t shoal_session_compare(shoal_session_t *session,
                                     const shoal_session_source_t *source) {
  if (shoal_world_size(session->world) == 1) return NULL;
  shoal_arena_t arena;
  shoal_arena_init(session->allocator, &arena);
  shoal_status_t status = compare(session, source, &arena);
  shoal_arena_deinit(&arena);
  return status;
}
