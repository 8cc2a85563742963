// Mutations: is the proof able to fail? Programs of a dozen plans - uneven, micro, chunk, halo,
// flat, weights, two meshes, several axes - are broken in every way program/mutate.h knows, one at
// a time. The parser, the static check or a comparison has to notice. What nobody notices has to be
// explained: explain.c says why a change cannot matter; a survivor without an explanation fails the
// run.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "explore/explain.h"
#include "explore/random_case.h"
#include "plan/plan.h"
#include "program/mutate.h"
#include "shoal/lower.h"
#include "shoal/planners.h"
#include "shoal/zoo.h"

#define MLP "mlp", "batch=5 in_features=3 hidden=4 classes=3 layers=1 dtype=f64"
#define GPT "gpt", "batch=3 context=3 vocabulary=5 width=6 heads=3 layers=1 dtype=f64"
#define CNN "cnn", "batch=2 channels=1 size=6 classes=3 dtype=f64"

// A zoo model under a strategy, or a case.
typedef struct subject {
  const char *what;
  const char *model, *settings;  // of the zoo; NULL: a case
  const char *strategy, *mesh;
  int32_t ranks;
  const char *text;
  int64_t sample;  // of its mutations, each of these only: many ranks take long; 0: 1
} subject_t;

static const subject_t subjects[] = {
    {"mlp, data, uneven", MLP, "data", "data=2", 2, NULL},
    {"mlp, data, micro-batches", MLP, "data", "data=2,micro=3", 2, NULL},
    {"mlp, tensor", MLP, "tensor", "tensor=3", 3, NULL},
    {"cnn, data", CNN, "data", "data=2", 2, NULL},
    {"gpt, tensor, units and chunks", GPT, "tensor", "tensor=2", 2, NULL},
    {"halo", NULL, NULL, NULL, NULL, 2,
     "seed=1 ranks=2 sgd; i0=f64[1,2,7,5]; s0=f64[2,2,3,3]; v0=conv(i0,s0){stride=[1,1], "
     "padding=[1,1]}; "
     "v1=max_pool(v0){kernel=[2,2], stride=[2,2], padding=[0,0]}; mesh data=2; pin i0 data:2"},
    {"flat moments, weights", NULL, NULL, NULL, NULL, 3,
     "seed=2 ranks=3 adamw; i0=f64[5,4]; s0=f64[4,3]; v0=matmul(i0,s0); v1=tanh(v0); mesh data=3; "
     "pin i0 data:0(3,1,2); pin s0#adamw.m data:flat; pin s0#adamw.v data:flat"},
    {"chunks", NULL, NULL, NULL, NULL, 2,
     "seed=3 ranks=2 momentum; i0=f64[3,4]; s0=f64[4,6]; v0=matmul(i0,s0); "
     "v1=slice(v0){start=[0,0], size=[3,2]}; v2=slice(v0){start=[0,2], size=[3,2]}; "
     "v3=slice(v0){start=[0,4], size=[3,2]}; v4=mul(v1,v2); v5=add(v4,v3); mesh tensor=2; pin s0 "
     "tensor:1*3"},
    {"two meshes, micro-batches", NULL, NULL, NULL, NULL, 3,
     "seed=4 ranks=3 sgd; i0=f64[5,3]; s0=f64[3,4]; s1=f64[4,2]; v0=matmul(i0,s0); v1=relu(v0); "
     "v2=matmul(v1,s1); mesh p!data=1,micro=2@0; mesh q!data=2,micro=2@1,2; pin i0 p!micro:0; pin "
     "t2 q!micro:0; "
     "stage v0/* p; stage v1/* p; stage v2/* q; stage loss/* q"},
    {"two axes", NULL, NULL, NULL, NULL, 4,
     "seed=5 ranks=4 sgd eval; i0=f64[3,4]; s0=f64[4,5]; s1=f64[5,2]; v0=matmul(i0,s0); "
     "v1=gelu(v0); "
     "v2=matmul(v1,s1); mesh data=2,tensor=2; pin i0 data:0; pin s0 tensor:1/2; pin s1 tensor:0/2"},
    {"split for a halo", NULL, NULL, NULL, NULL, 3,
     "seed=11 ranks=3 sgd; i0=f64[2,1,14,3]; s0=f64[2,1,3,1]; v0=conv(i0,s0){stride=[1,1], "
     "padding=[1,0], dilation=[1,1]}; mesh space=3; pin i0 space:2; decide halo * auto"},
    {"products in tiles, gathered and scattered", NULL, NULL, NULL, NULL, 2,
     "seed=12 ranks=2 sgd; i0=f64[8,3]; s0=f64[3,4]; s1=f64[4,3]; v0=tanh(i0); "
     "v1=matmul(v0,s0); v2=matmul(v1,s1); v3=tanh(v2); mesh tensor=2; pin i0 tensor:0; "
     "pin v3/tanh tensor:0; decide way v1/matmul tensor={b:1 -> out:1}; "
     "decide way v2/matmul tensor={a:1, b:0 -> out:sum}; decide tile v1/matmul 2; "
     "decide tile v2/matmul 2"},
    {"softmax over a cut dim, expanded", NULL, NULL, NULL, NULL, 2,
     "seed=6 ranks=2 sgd; i0=f64[3,5]; s0=f64[3,5]; v0=mul(i0,s0); v1=reduce_max(v0){dims=[1], "
     "keep=1}; "
     "v2=sub(v0,v1); v3=exp(v2); mesh tensor=2; pin i0 tensor:1; pin s0 tensor:1"},
    {"embedding, cross-entropy, idle rank", NULL, NULL, NULL, NULL, 3,
     "seed=7 ranks=3 momentum; i0=i32[5]<7; i1=i32[5]<4; s0=f64[7,4]; v0=embedding(s0,i0); "
     "v1=cross_entropy(v0,i1); mesh data=2@2,0; pin s0 data:0; pin i0 data:0"},
    // Of its two steps every state is updated in one and not in the other, whatever the data.
    {"guarded states", NULL, NULL, NULL, NULL, 2,
     "seed=10 ranks=2 none guarded; i0=f64[5,3]; v0=cast(step){dtype=f64}; "
     "v1=affine(v0){scale=1, shift=-1.5}; v2=square(i0); v3=mul(v2,v1); mesh data=2; "
     "pin i0 data:0; pin held data:0; pin kept data:1"},
    {"states and values in host memory and files", NULL, NULL, NULL, NULL, 2,
     "seed=11 ranks=2 adamw; i0=f64[5,3]; s0=f64[3,4]; s1=f64[4,2]; v0=matmul(i0,s0); v1=tanh(v0); "
     "v2=matmul(v1,s1); v3=tanh(v2); mesh data=2,micro=2; pin i0 micro:0,data:0; "
     "decide memory s0* file; decide memory s1 host; decide keep v1* file; decide keep v3* file",
     2},
    {"buckets", NULL, NULL, NULL, NULL, 3,
     "seed=11 ranks=3 sgd; i0=f64[5,4]; s0=f64[4,4]; s1=f64[4,4]; s2=f64[4,4]; v0=matmul(i0,s0); "
     "v1=tanh(v0); v2=matmul(v1,s1); v3=matmul(v2,s2); mesh data=3; pin i0 data:0; "
     "pin s0 data:0; pin s1 data:0; decide sync * bucket=all"},
    {"recomputed and gathered again", NULL, NULL, NULL, NULL, 2,
     "seed=11 ranks=2 sgd blocks=3; i0=f64[5,4]; s0=f64[4,6]; s1=f64[6,3]; v0=matmul(i0,s0); "
     "v1=dropout(v0,step){p=0.4, key=5}; v2=tanh(v1); v3=matmul(v2,s1); v4=gelu(v3); mesh data=2; "
     "pin i0 data:0; pin s0 data:flat; pin s1 data:0; decide recompute b* yes; decide keep s* "
     "redo"},
    {"outputs on request, micro-batches", NULL, NULL, NULL, NULL, 2,
     "seed=12 ranks=2 sgd eval; i0=f64[8,3]; s0=f64[3,4]; v0=matmul(i0,s0); v1=tanh(v0); "
     "mesh data=2,micro=2; pin i0 micro:0,data:0; decide fetch * request",
     2},
    {"attention over cut keys", NULL, NULL, NULL, NULL, 2,
     "seed=14 ranks=2 sgd; i0=f64[1,1,3,2]; s0=f64[1,1,3,2]; s1=f64[1,1,3,2]; "
     "v0=attention(i0,s0,s1){causal=1}; v1=attention(v0,s1,s0){causal=0}; mesh context=2; "
     "pin s0 context:2; pin s1 context:2; "
     "decide way */attention context={k:2, v:2 -> out:lse, lse:lse}"},
    {"rows exchanged", NULL, NULL, NULL, NULL, 3,
     "seed=13 ranks=3 sgd; i0=i32[3,4]<4; i1=f64[3,4,3,2]; i2=i32[3,4]<4; s0=f64[3,4,3,2]; "
     "v0=add(i1,s0); v1=bound(v0,i0); v2=tanh(v1); v3=bound(v2,i2); v4=neg(v3); mesh rows=3; "
     "pin i0 rows:0; pin i1 rows:0; pin i2 rows:1; "
     "decide way v1/bound rows={x:0, counts:0 -> out:0}; decide way v2/tanh rows={x:1 -> out:1}; "
     "decide way v3/bound rows={x:1, counts:1 -> out:1}; decide way v4/neg rows={x:0 -> out:0}",
     2},
    {"64 ranks, two axes", NULL, NULL, NULL, NULL, 64,
     "seed=8 ranks=64 adamw; i0=f64[21,6]; s0=f64[6,9]; s1=f64[9,5]; v0=matmul(i0,s0); "
     "v1=gelu(v0); v2=matmul(v1,s1); mesh data=16,tensor=4; pin i0 data:0; pin s0 tensor:1; "
     "pin s1 tensor:0; pin s0#adamw.m tensor:1,data:0; pin s0#adamw.v tensor:1,data:0",
     12},
    {"40 ranks, two meshes in another order, micro-batches", NULL, NULL, NULL, NULL, 40,
     "seed=9 ranks=40 sgd; i0=f64[50,3]; s0=f64[3,4]; s1=f64[4,5]; v0=matmul(i0,s0); v1=relu(v0); "
     "v2=matmul(v1,s1); mesh p!data=17,micro=2@16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0; "
     "mesh q!data=23,micro=2@17-39; pin i0 p!micro:0,data:0; pin t2 q!micro:0,data:0; "
     "stage v0/* p; stage v1/* p; stage v2/* q; stage loss/* q",
     12},
};
#define SUBJECT_COUNT ((int64_t)(sizeof subjects / sizeof subjects[0]))

typedef struct mutation_run {
  const shoal_mutate_options_t *options;
  shoal_allocator_t allocator;
  shoal_registry_t *registry;
  shoal_mutate_report_t *report;
  int64_t end_ns;
} mutation_run_t;

static void say(const mutation_run_t *r, const char *text) {
  if (r->options->line && text) r->options->line(r->options->line_self, text);
}

// ---- one subject --------------------------------------------------------------------------------

static shoal_status_t build_model(mutation_run_t *r, const subject_t *subject, shoal_arena_t *arena,
                                  shoal_random_case_t *out_case, shoal_model_t **out_model) {
  if (subject->text) {
    SHOAL_RETURN_IF_ERROR(shoal_random_case_parse(subject->text, r->registry, arena, out_case));
    return shoal_random_case_build(out_case, r->registry, r->allocator, out_model);
  }
  shoal_model_options_t options = {.allocator = r->allocator, .registry = r->registry, .seed = 5};
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, out_model));
  const shoal_recipe_t recipe = {.eps = 1e-3};
  const shoal_zoo_options_t sizes = {
      .settings = subject->settings, .recipe = &recipe, .allocator = r->allocator};
  shoal_zoo_t *zoo;
  SHOAL_RETURN_IF_ERROR(shoal_zoo_create(subject->model, &sizes, &zoo));
  shoal_zoo_add(zoo, *out_model);
  shoal_zoo_free(zoo);
  return shoal_model_status(*out_model);
}

static shoal_status_t plan_subject(mutation_run_t *r, const subject_t *subject,
                                   const shoal_model_t *model, const shoal_random_case_t *c,
                                   shoal_rules_t *rules, shoal_plan_t **out_plan) {
  if (subject->text) {
    const shoal_intent_t intent = shoal_random_case_intent(c);
    return shoal_plan_create(model, rules, &intent, subject->ranks, r->allocator, out_plan);
  }
  const shoal_plan_options_t options = {.allocator = r->allocator,
                                        .strategy = subject->strategy,
                                        .mesh = subject->mesh,
                                        .world = subject->ranks};
  return shoal_plan_make(model, rules, &options, out_plan);
}

typedef enum verdict { CAUGHT_PARSE, CAUGHT_STATIC, CAUGHT_RUN, SURVIVED } verdict_t;

// What is mutated, with what it came from.
typedef struct original {
  const subject_t *subject;
  shoal_model_t *model;
  shoal_plan_t *plan;
  shoal_program_t *program;
} original_t;

static shoal_check_options_t options_of(const mutation_run_t *r, const original_t *o,
                                        const shoal_program_t *program) {
  return (shoal_check_options_t){.allocator = r->allocator,
                                 .ranks = o->subject->ranks,
                                 .program = program,
                                 .from = o->plan,
                                 .steps = 2,
                                 .seed = r->options->seed,
                                 .timeout_ms = 10000};
}

static shoal_status_t judge(mutation_run_t *r, const original_t *o, const char *text,
                            verdict_t *out_verdict, shoal_program_t **out_program, char *why,
                            size_t why_size) {
  *out_program = NULL;
  *out_verdict = CAUGHT_PARSE;
  shoal_status_t status =
      shoal_program_parse("mutated", text, r->registry, r->allocator, out_program);
  if (!status) {
    shoal_check_report_t report;
    shoal_check_options_t options = options_of(r, o, *out_program);
    status = shoal_check_model(o->model, &options, &report);
    *out_verdict = !status                             ? SURVIVED
                   : report.step == SHOAL_CHECK_STATIC ? CAUGHT_STATIC
                                                       : CAUGHT_RUN;
  }
  snprintf(why, why_size, "%s", shoal_status_message(status));
  if (status && shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  return NULL;
}

static shoal_status_t one_mutation(mutation_run_t *r, const original_t *o, int64_t index) {
  static const char *const words[] = {"does not parse", "static check", "wrong", "SURVIVED"};
  shoal_arena_t arena;
  shoal_arena_init(r->allocator, &arena);
  shoal_mutation_t mutation = {0};
  char why[600];
  verdict_t verdict = SURVIVED;
  shoal_program_t *mutated = NULL;
  shoal_status_t status = shoal_program_mutate(o->program, index, &arena, &mutation);
  if (!status) status = judge(r, o, mutation.text, &verdict, &mutated, why, sizeof why);
  if (!status) {
    ++r->report->mutations;
    r->report->by_parse += verdict == CAUGHT_PARSE;
    r->report->by_static_check += verdict == CAUGHT_STATIC;
    r->report->by_run += verdict == CAUGHT_RUN;
    if (verdict == SURVIVED) {
      const char *reason = shoal_explain_mutation(o->program, &mutation);
      if (reason)
        ++r->report->explained;
      else
        ++r->report->survivors;
      say(r, shoal_arena_printf(&arena, "%s, mutation %lld, %s: %s%s", o->subject->what,
                                (long long)index, mutation.description,
                                reason ? "computes the same: " : "SURVIVED", reason ? reason : ""));
    } else if (r->options->verbose) {
      say(r, shoal_arena_printf(&arena, "%s, mutation %lld, %s: %s: %s", o->subject->what,
                                (long long)index, mutation.description, words[verdict], why));
    }
  }
  shoal_program_free(mutated);
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_status_t one_subject(mutation_run_t *r, const subject_t *subject) {
  shoal_arena_t arena;
  shoal_arena_init(r->allocator, &arena);
  original_t o = {.subject = subject};
  shoal_rules_t *rules = NULL;
  shoal_random_case_t c = {0};
  shoal_check_report_t report;
  shoal_status_t status = build_model(r, subject, &arena, &c, &o.model);
  if (!status) status = shoal_rules_create(r->allocator, &rules);
  if (!status) status = plan_subject(r, subject, o.model, &c, rules, &o.plan);
  if (!status)
    status = shoal_lower(o.plan, &(shoal_lower_options_t){.allocator = r->allocator}, &o.program);
  if (status) goto done;
  shoal_check_options_t options = options_of(r, &o, o.program);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_check_model(o.model, &options, &report));
  ++r->report->plans;
  int64_t count = shoal_program_mutations(o.program),
          stride = (r->options->stride ? r->options->stride : 1) *
                   (subject->sample ? subject->sample : 1);
  shoal_mutate_report_t before = *r->report;
  for (int64_t i = (int64_t)(r->options->seed % (uint64_t)stride); i < count && !status;
       i += stride) {
    if (shoal_time_ns() > r->end_ns) break;
    status = one_mutation(r, &o, i);
  }
  const shoal_mutate_report_t *now = r->report;
  say(r,
      shoal_arena_printf(
          &arena,
          "%s: %lld of %lld mutations: %lld static check, %lld wrong, %lld compute the same, "
          "%lld survived",
          subject->what, (long long)(now->mutations - before.mutations), (long long)count,
          (long long)(now->by_static_check + now->by_parse - before.by_static_check -
                      before.by_parse),
          (long long)(now->by_run - before.by_run), (long long)(now->explained - before.explained),
          (long long)(now->survivors - before.survivors)));
done:
  shoal_program_free(o.program);
  shoal_plan_free(o.plan);
  shoal_rules_free(rules);
  shoal_model_free(o.model);
  shoal_arena_deinit(&arena);
  return status ? shoal_status_annotatef(status, "%s", subject->what) : NULL;
}

shoal_status_t shoal_check_mutations(const shoal_mutate_options_t *options,
                                     shoal_mutate_report_t *out_report) {
  *out_report = (shoal_mutate_report_t){0};
  mutation_run_t r = {.options = options, .allocator = options->allocator, .report = out_report};
  if (!r.allocator.alloc) r.allocator = shoal_allocator_system();
  r.end_ns =
      options->minutes > 0 ? shoal_time_ns() + (int64_t)(options->minutes * 60e9) : INT64_MAX;
  SHOAL_RETURN_IF_ERROR(shoal_registry_create(r.allocator, &r.registry));
  shoal_status_t status = NULL;
  for (int64_t i = 0; i < SUBJECT_COUNT && !status; ++i) status = one_subject(&r, &subjects[i]);
  shoal_registry_release(r.registry);
  if (!status && out_report->survivors > 0)
    status = SHOAL_ERROR(MISMATCH, "%lld mutations were not noticed and have no explanation",
                         (long long)out_report->survivors);
  return status;
}
