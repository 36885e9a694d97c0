#!/bin/bash
# A sweep as a Slurm job array: every task does its share of the cells in a shared folder, one job joins them.
#
#   sbatch --export=ALL,MODEL=zoo:listops-s5,TASK=listops-mini,OUT=$PWD/sweep examples/slurm_sweep.sh
#
# Options of `aire sweep` go into ARGS, exported before (--export splits at commas), those of Slurm into the line. As it was tried:
#
#   export ARGS="--examples 60 --methods aire,random --ratios 0.5,0.9"
#   sbatch --export=ALL,MODEL=zoo:listops-s5,TASK=listops-mini,OUT=$PWD/sweep --array=1-3 --cpus-per-task=1 --mem=2G \
#     examples/slurm_sweep.sh
#
# A share that failed or was preempted is taken up by submitting the same line again: done cells are not done twice.
#SBATCH --job-name=aire-sweep
#SBATCH --array=1-20
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail

export OMP_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}" # cells that are done at the same time
part="${SLURM_ARRAY_TASK_ID}/${SLURM_ARRAY_TASK_COUNT}"
read -ra options <<<"${ARGS:-}"
aire sweep "$MODEL" --task "$TASK" -o "$OUT" --part "$part" "${options[@]}"

if [ "$SLURM_ARRAY_TASK_ID" -eq 1 ]; then # joins them once all of the array have ended well
  sbatch --dependency="afterok:${SLURM_ARRAY_JOB_ID}" --job-name=aire-merge --wrap "aire sweep merge '$OUT'"
fi
