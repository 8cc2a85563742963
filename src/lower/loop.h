// The loop of a graph that has a schedule.
//
// A *place* is a kind of work of a stage, as one number: F of the stages in ascending order, then B
// and W of the stages in descending order. It is the `depth` of items in the loop.
#ifndef SHOAL_LOWER_LOOP_H_
#define SHOAL_LOWER_LOOP_H_

#include "plan/stages.h"

typedef struct loop_plan {
  const shoal_schedule_t *schedule;
  shoal_stages_t stages;
  int32_t *segments;  // by place: the graph's segment; -1: nothing runs there
} loop_plan_t;

static inline int32_t shoal_lower_place_of(const loop_plan_t *loop, shoal_work_t work,
                                           int32_t stage) {
  const int32_t count = loop->stages.count;
  if (work == SHOAL_WORK_FORWARD) return stage;
  return count + 2 * (count - 1 - stage) + (work == SHOAL_WORK_WEIGHT && loop->schedule->split);
}

static inline shoal_work_t shoal_lower_place_work(const loop_plan_t *loop, int32_t place) {
  const int32_t count = loop->stages.count;
  return place < count              ? SHOAL_WORK_FORWARD
         : (place - count) % 2 == 0 ? SHOAL_WORK_BACKWARD
                                    : SHOAL_WORK_WEIGHT;
}

static inline int32_t shoal_lower_place_stage(const loop_plan_t *loop, int32_t place) {
  const int32_t count = loop->stages.count;
  return place < count ? place : count - 1 - (place - count) / 2;
}

#endif  // SHOAL_LOWER_LOOP_H_
