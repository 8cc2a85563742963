// Driver of lowering: the passes, one after the other, all of them or up to one that is asked for.
#include "shoal/lower.h"

#include <string.h>

#include "base/status.h"
#include "lower/build.h"
#include "shoal/options.h"

typedef struct pass {
  const char *name, *doc;
  shoal_status_t (*run)(build_t *b);
} pass_t;

static const pass_t passes[] = {
#define SHOAL_PASS(name, doc) {#name, doc, shoal_lower_pass_##name},
#include "lower/passes.inc"
#undef SHOAL_PASS
};
#define PASS_COUNT ((int64_t)(sizeof passes / sizeof passes[0]))

int64_t shoal_lower_pass_count(void) {
  return PASS_COUNT;
}

const char *shoal_lower_pass_name(int64_t index) {
  return index >= 0 && index < PASS_COUNT ? passes[index].name : NULL;
}

const char *shoal_lower_pass_doc(int64_t index) {
  return index >= 0 && index < PASS_COUNT ? passes[index].doc : NULL;
}

// A build whose program's arena owns all it makes; free the program, whatever has become of it.
static shoal_status_t start(const shoal_plan_t *plan, const shoal_lower_options_t *options,
                            build_t *b) {
  shoal_allocator_t allocator = options->allocator.alloc ? options->allocator : plan->allocator;
  shoal_arena_t *arena = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(allocator, &arena));
  shoal_program_t *program = SHOAL_NEW(arena, shoal_program_t, 1);
  if (!program) {
    shoal_arena_free(arena);
    return SHOAL_OOM();
  }
  *program = (shoal_program_t){.arena = arena, .world = plan->world, .micro = plan->micro};
  *b = (build_t){.plan = plan,
                 .options = options,
                 .arena = arena,
                 .program = program,
                 .target = shoal_target_cpu()};
  shoal_layouts_init(arena, &b->layouts);
  shoal_key_init(arena, &b->path_key);
  shoal_memo_init(arena, &b->path_memo);
  return NULL;
}

// Runs the first `count` passes.
static shoal_status_t run_passes(build_t *b, int64_t count) {
  SHOAL_RETURN_IF_ERROR(shoal_lower_setup(b));
  for (int64_t p = 0; p < count; ++p) SHOAL_RETURN_IF_ERROR(passes[p].run(b));
  return NULL;
}

shoal_status_t shoal_lower(const shoal_plan_t *plan, const shoal_lower_options_t *options,
                           shoal_program_t **out_program) {
  const shoal_lower_options_t defaults = {0};
  build_t b = {0};
  *out_program = NULL;
  SHOAL_RETURN_IF_ERROR(start(plan, options ? options : &defaults, &b));
  shoal_status_t status = run_passes(&b, PASS_COUNT);
  if (!status) status = shoal_lower_limit(&b);
  if (status) {
    shoal_program_free(b.program);
    return status;
  }
  *out_program = b.program;
  return NULL;
}

static shoal_status_t find_pass(const char *name, int64_t *out_index) {
  const char *names[PASS_COUNT];
  for (int64_t p = 0; p < PASS_COUNT; ++p) {
    names[p] = passes[p].name;
    *out_index = p;
    if (strcmp(name, names[p]) == 0) return NULL;
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(name, names, PASS_COUNT, "`shoal explain --pass list` lists them", &hint),
      "lowering has no pass '%s'", name);
}

shoal_status_t shoal_lower_explain(const shoal_plan_t *plan, const shoal_lower_options_t *options,
                                   const char *pass, shoal_arena_t *arena, const char **out_text) {
  const shoal_lower_options_t defaults = {0};
  int64_t last = -1;
  build_t b = {0};
  SHOAL_RETURN_IF_ERROR(find_pass(pass, &last));
  SHOAL_RETURN_IF_ERROR(start(plan, options ? options : &defaults, &b));
  shoal_text_t text;
  shoal_text_init(plan->allocator, &text);
  shoal_status_t status = run_passes(&b, last + 1);
  if (!status) status = shoal_lower_print(&b, &text);
  shoal_program_free(b.program);
  return shoal_text_close(&text, status, arena, out_text);
}
