"""What rows of the benchmark are made of; it lives in ``keyveil.bench``, which an installed package has, too."""

from __future__ import annotations

from keyveil.bench.machine import machine as machine
from keyveil.bench.rows import REGISTRY as REGISTRY
from keyveil.bench.rows import Benchmark as Benchmark
from keyveil.bench.rows import Race as Race
from keyveil.bench.rows import Ratio as Ratio
from keyveil.bench.rows import benchmark as benchmark
from keyveil.bench.rows import measured as measured
from keyveil.bench.rows import run as run
