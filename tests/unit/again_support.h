// A small GPT with dropout, lowered with decisions that make something a second time, on one rank
// and on several.
#ifndef SHOAL_TESTS_UNIT_AGAIN_SUPPORT_H_
#define SHOAL_TESTS_UNIT_AGAIN_SUPPORT_H_
#include <string.h>

#include "plan_fixture.h"

enum { BATCH = 6, CONTEXT = 4, VOCABULARY = 7, WIDTH = 8 };

static inline shoal_model_t *make_model(int64_t layers) {
  return make_gpt(&(gpt_sizes_t){.batch = BATCH,
                                 .context = CONTEXT,
                                 .vocabulary = VOCABULARY,
                                 .width = WIDTH,
                                 .heads = 2,
                                 .layers = layers,
                                 .dtype = SHOAL_F64,
                                 .dropout = 0.3});
}

static const shoal_intent_decision_t RECOMPUTE = {
    .kind = "recompute", .pattern = "block*", .choice = "yes"};
static const shoal_intent_decision_t REDO = {
    .kind = "keep", .pattern = "*weight", .choice = "redo"};

typedef struct setting {
  const char *name;
  const char *meshes[2];  // the second: block1 and what follows
  shoal_intent_entry_t layouts[4];
} setting_t;

static const setting_t SETTINGS[] = {
    {"one rank", {"data=1"}, {{"ids", "data:0"}}},
    {"ranks", {"data=2"}, {{"ids", "data:0"}, {"labels", "data:0"}, {"block*weight", "data:flat"}}},
    {"micro-batches",
     {"data=2,micro=4"},
     {{"ids", "micro:0,data:0"}, {"labels", "micro:0,data:0"}, {"block*weight", "data:flat"}}},
    {"tensors",
     {"data=2,tensor=2"},
     {{"ids", "data:0"}, {"labels", "data:0"}, {"block*fc*weight", "tensor:1"}}},
    {"stages",
     {"a!data=2,micro=3@0-1", "b!data=2,micro=3@2-3"},
     {{"ids", "a!micro:0,data:0"}, {"labels", "b!micro:0,data:0"}, {"block*weight", "data:flat"}}},
};

static const shoal_intent_entry_t STAGES[] = {
    {"block*", "b"}, {"block0/*", "a"}, {"wte*", "a"},          {"wpe*", "a"},
    {"ln_f*", "b"},  {"head*", "b"},    {"cross_entropy*", "b"}};

static inline int32_t world_of(const setting_t *setting) {
  return strcmp(setting->name, "one rank") == 0  ? 1
         : strcmp(setting->name, "stages") == 0  ? 4
         : strcmp(setting->name, "tensors") == 0 ? 4
                                                 : 2;
}

static inline shoal_program_t *lower_with(const shoal_model_t *model, const setting_t *setting,
                                          int64_t count, const shoal_intent_decision_t *decisions) {
  int64_t layouts = 0;
  while (layouts < COUNT(setting->layouts) && setting->layouts[layouts].pattern) ++layouts;
  const shoal_intent_t intent = {.mesh_count = setting->meshes[1] ? 2 : 1,
                                 .meshes = setting->meshes,
                                 .layout_count = layouts,
                                 .layouts = setting->layouts,
                                 .stage_count = setting->meshes[1] ? COUNT(STAGES) : 0,
                                 .stages = STAGES,
                                 .decision_count = count,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(
      shoal_plan_create(model, rules, &intent, world_of(setting), shoal_allocator_system(), &plan));
  shoal_program_t *program = lower(plan);
  shoal_plan_free(plan);
  return program;
}

#endif  // SHOAL_TESTS_UNIT_AGAIN_SUPPORT_H_
