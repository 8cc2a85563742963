// The parts that generators, parser, check and time of schedules share.
#ifndef SHOAL_PLAN_SCHEDULE_H_
#define SHOAL_PLAN_SCHEDULE_H_

#include "shoal/schedule.h"

// As many stages as a table may have; micro-batches are bounded by SHOAL_PLAN_MAX_MICRO.
#define SHOAL_SCHEDULE_MAX_STAGES 4096

// 'F', 'B' or 'W'.
char shoal_work_letter(shoal_work_t work);
// How many kinds of work each stage has: 2 or 3.
int32_t shoal_schedule_works(const shoal_schedule_t *schedule);

// Runs the rows side by side: every mesh its entries in order, each once those that it waits for
// are done. `visit` sees every entry, in an order in which they can run. The table must have passed
// the check.
typedef void (*shoal_schedule_visit_fn_t)(void *self, int32_t row, int64_t entry);
SHOAL_MUST_USE shoal_status_t shoal_schedule_walk(const shoal_schedule_t *schedule,
                                                  shoal_schedule_visit_fn_t visit, void *self);
// What an entry waits for: at most two entries. Returns how many.
int32_t shoal_schedule_needs(const shoal_schedule_t *schedule, const shoal_schedule_entry_t *entry,
                             shoal_schedule_entry_t out_needs[2]);

#endif  // SHOAL_PLAN_SCHEDULE_H_
