#!/usr/bin/env bash
# labels: slow
# Every model x plan x ranks x dtype of check_models.sh.
exec bash "$(dirname "$0")/check_models.sh" all
