#!/usr/bin/env bash
# Products whose batch dims are broadcast, products of rows by the matrix of their group, and masks that are drawn, with
# their gradients, proven equal to one device wherever they may be cut.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

cut() { # WHAT CASE LAYOUTS...: the case with each of these pins
  local what=$1 case=$2 pins
  shift 2
  for pins in "$@"; do check "$what: $pins" "$case; $pins"; done
}
for ranks in 2 3; do
  cut "one matrix for a batch, $ranks ranks" \
    "seed=1 ranks=$ranks sgd; i0=f64[5,4,6]; s0=f64[6,7]; v0=matmul(i0,s0); mesh data=$ranks" \
    "pin i0 data:0" "pin i0 data:1" "pin i0 data:2; pin s0 data:0" "pin s0 data:1"
  cut "a batch dim of each operand, $ranks ranks" \
    "seed=2 ranks=$ranks sgd; i0=f64[5,1,4,6]; s0=f64[3,7,6]; v0=matmul(i0,s0){transpose_b=1}; mesh data=$ranks" \
    "pin i0 data:0" "pin s0 data:0" "pin i0 data:2" "pin i0 data:3; pin s0 data:2"
  cut "rows by group, $ranks ranks" \
    "seed=3 ranks=$ranks sgd; i0=f64[11,4]; i1=i64[5]<12; s0=f64[5,4,6]; v0=grouped_matmul(i0,s0,i1); mesh expert=$ranks" \
    "pin i0 expert:0" "pin s0 expert:0" "pin i0 expert:1; pin s0 expert:1" "pin s0 expert:2" "pin i0 expert:0; pin s0 expert:0"
  cut "rows by group in micro-batches, $ranks ranks" \
    "seed=4 ranks=$ranks sgd; i0=f64[11,4]; i1=i32[5]<12; s0=f64[5,6,4]; s1=f64[11,4]; v0=mul(i0,s1); v1=grouped_matmul(v0,s0,i1){transpose_w=1}; mesh expert=$ranks,micro=2" \
    "pin i0 micro:0; pin s0 expert:0" "pin i0 expert:0; pin s1 expert:0"
  cut "a mask of probabilities, $ranks ranks" \
    "seed=5 ranks=$ranks sgd; i0=f64[5,7]; s0=f64[5,7]; v0=sigmoid(i0); v1=bernoulli(v0,step){key=9}; v2=mul(v1,s0); mesh data=$ranks" \
    "pin i0 data:0" "pin i0 data:1" "pin i0 data:flat; pin s0 data:flat"
done
