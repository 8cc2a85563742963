// Comparing cuts, and what a change of layout along one axis costs completion. Costs are in bytes
// moved and only rank alternatives; real times are the simulator's business.
#ifndef SHOAL_PLAN_CUT_H_
#define SHOAL_PLAN_CUT_H_

#include "shoal/layout.h"

// Says whether two items of layouts cut a value of this shape in the same way. NULL is whole. Axis
// numbers are not compared.
bool shoal_cut_same(const shoal_cut_t *a, const shoal_cut_t *b, const shoal_shape_t *shape,
                    bool ignore_halo);
// Bytes moved to get from `have` to `need` along one axis, for a value of `bytes` bytes.
double shoal_cut_change(const shoal_cut_t *have, const shoal_cut_t *need,
                        const shoal_shape_t *shape, double bytes);
// The same along micro, where parts come one after another instead of on several ranks. Infinite
// where the micro-batch loop cannot do it.
double shoal_cut_change_micro(const shoal_cut_t *have, const shoal_cut_t *need,
                              const shoal_shape_t *shape, double bytes);

#endif  // SHOAL_PLAN_CUT_H_
