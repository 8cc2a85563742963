// stub
#include "base/status.h"
#include "prove/prove.h"
shoal_status_t shoal_check_mutations(const shoal_mutate_options_t *options, shoal_mutate_report_t *out_report) { (void)options; *out_report=(shoal_mutate_report_t){0}; return SHOAL_ERROR(UNAVAILABLE, "not yet"); }
