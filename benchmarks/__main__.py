"""``python -m benchmarks [--quick] [--json]``: all ratios as a table, or as one JSON object."""

from __future__ import annotations

import argparse
import json
import os


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Speed ratios on one core of this machine.")
    parser.add_argument("--quick", action="store_true", help="fewer people and repeats")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()

    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"  # read by the libraries when they are first imported, which is below
    import benchmarks.documents
    import benchmarks.kernels
    import benchmarks.reports  # noqa: F401  (all three register their benchmarks)
    from benchmarks.runner import machine, results, run

    if options.json:
        print(json.dumps(results(list(run(options.quick)))))
        return
    print(machine())
    print(f"{'name':<20} {'ratio':>7} {'goal':>5} {'a second':>11}  against")
    for ratio in run(options.quick):
        goal = "" if ratio.goal is None else f"{ratio.goal:g}"
        rate = "" if ratio.reports_per_second is None else f"{ratio.reports_per_second:,}"
        print(f"{ratio.name:<20} {ratio.ratio:>7.1f} {goal:>5} {rate:>11}  {ratio.against}", flush=True)


if __name__ == "__main__":
    main()
