#!/usr/bin/env bash
# labels: slow
# Families x ranks and the settings that change a graph, over strategies and dtypes (check_zoo.sh).
exec bash "$(dirname "$0")/check_zoo.sh" pairs
