// stub
#include "base/status.h"
#include "prove/prove.h"
shoal_status_t shoal_check_random(const shoal_random_options_t *options, shoal_random_report_t *out_report) { (void)options; *out_report=(shoal_random_report_t){0}; return SHOAL_ERROR(UNAVAILABLE, "not yet"); }
shoal_status_t shoal_check_case(const char *text, const shoal_random_options_t *options, shoal_check_report_t *out_report) { (void)text,(void)options; *out_report=(shoal_check_report_t){0}; return SHOAL_ERROR(UNAVAILABLE, "not yet"); }
shoal_status_t shoal_check_mutations(const shoal_mutate_options_t *options, shoal_mutate_report_t *out_report) { (void)options; *out_report=(shoal_mutate_report_t){0}; return SHOAL_ERROR(UNAVAILABLE, "not yet"); }
