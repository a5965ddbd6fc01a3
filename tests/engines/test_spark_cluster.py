"""Spark as several hosts run it: a speculative copy of a slow task changes nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyveil.core.tally import Tally
from keyveil.engines.local import count
from tests.engines.report_files import reports, written
from tests.engines.speculating import DOCUMENT, HANGS

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A master and two workers of one core each; the environment of a program that uses them.

    Spark starts no second copy of a task on a host that runs the first, so the workers are hosts with addresses of
    their own on this machine. In Spark's local mode there is no speculation at all.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    address, settings = f"spark://127.0.0.1:{port}", folder / "settings"
    settings.mkdir()
    told = "".join(f"{name} {value}\n" for name, value in SETTINGS.items())
    (settings / "spark-defaults.conf").write_text(told, encoding="ascii")
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    own = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(settings), "PYTHONPATH": path, "KEYVEIL_KERNELS": "numpy"}
    environment = {**os.environ, **own, "PYSPARK_PYTHON": sys.executable, "SPARK_MASTER": address}
    deployed = "org.apache.spark.deploy"
    hosts: list[tuple[str, ...]] = [
        (f"{deployed}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    ]
    for host in ("127.0.0.2", "127.0.0.3"):
        place_of = ("--host", host, "--webui-port", "0", "--work-dir", str(folder / host))
        hosts.append((f"{deployed}.worker.Worker", *place_of, "--cores", "1", "--memory", "1g", address))
    started = [
        subprocess.Popen([home / "bin" / "spark-class", *host], env=environment, stderr=subprocess.DEVNULL)
        for host in hosts
    ]
    try:
        yield {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(60)


@pytest.mark.soak
def test_a_speculative_copy_of_a_slow_task_changes_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The first try of a task hangs, a second one counts, and its answer is the one that is taken."""
    folder, marks = tmp_path / "reports", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    rows = reports(DOCUMENT, 2000)
    written(folder / "0.parquet", rows[:1200])
    written(folder / "1.parquet", rows[800:])
    command = [sys.executable, "-m", "tests.engines.speculating", str(folder), str(marks)]
    with cluster(tmp_path) as environment:
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=HANGS, check=True)

    tries = {path.name for path in marks.iterdir()}
    assert {"0.0", "0.1", "0.1 counted"} <= tries and "0.0 counted" not in tries
    assert Tally.from_bytes(bytes.fromhex(done.stdout.decode().split()[-1])) == count(folder, DOCUMENT).tally
    record_property("tries of the slow task", sorted(name for name in tries if name.startswith("0.")))
