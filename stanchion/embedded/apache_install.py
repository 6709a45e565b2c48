"""Apache Kafka's jars by Maven: there is no wheel of it, and its artifacts are all that a broker needs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from stanchion.embedded.errors import CANNOT_INSTALL, EmbeddedError
from stanchion.embedded.processes import eventually
from stanchion.embedded.server import tail

KAFKA_VERSION = "4.3.1"
# Kafka brings slf4j 1.7: the binding for slf4j 2 would be ignored, and every line of the log lost.
_LOG4J_VERSION = "2.25.4"
_MAVEN_SECONDS = 600.0

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stanchion</groupId>
  <artifactId>embedded-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{_LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def find_java() -> Path:
    """Return the `java` program. Raises EmbeddedError (`E-SERVER-08`) when there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return Path(home) / "bin" / "java"
    return _find("java", "Apache Kafka runs on Java 17 or later", "default-jre-headless")


def install(cache: Path, abort: threading.Event | None = None) -> Path:
    """Return the folder with Kafka's jars under `cache`, filled by Maven on the first use (some 45 MB).

    Several processes may call it at once: each fills a draft, and the first to finish wins. `abort` ends a download.
    Raises EmbeddedError (`E-SERVER-08`) when Maven is missing or can't resolve the artifacts.
    """
    libs = cache / f"libs-{KAFKA_VERSION}"
    if libs.is_dir():
        return libs
    maven = _find("mvn", "Apache Kafka's jars come from a Maven repository", "maven")
    draft = cache / f"libs-draft-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        pom = draft / "pom.xml"
        pom.write_text(_POM, encoding="utf-8")
        _run_maven(maven, pom, draft / "libs", abort or threading.Event())
        try:
            (draft / "libs").rename(libs)
        except OSError:
            if not libs.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return libs


def _run_maven(maven: Path, pom: Path, libs: Path, abort: threading.Event) -> None:
    command = [str(maven), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    log_path = pom.with_name("maven.log")
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=pom.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if not eventually(lambda: process.poll() is not None or abort.is_set(), _MAVEN_SECONDS) or abort.is_set():
        # A download that nobody waits for any more must not hold up Ctrl-C; Maven starts Java as a child.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        raise _unresolved("it was interrupted" if abort.is_set() else f"it took longer than {_MAVEN_SECONDS:g} s")
    if process.returncode != 0 or not list(libs.glob("kafka_2.13-*.jar")):
        raise _unresolved(tail(log_path, lines=8))


def _unresolved(why: str) -> EmbeddedError:
    return EmbeddedError(
        CANNOT_INSTALL,
        f"Maven can't fetch Apache Kafka {KAFKA_VERSION}",
        where=f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        why=why,
        fix="check the network and Maven's settings, or name a real broker in STANCHION_KAFKA_BOOTSTRAP",
    )


def _find(program: str, why: str, package: str) -> Path:
    found = shutil.which(program)
    if found is None:
        raise EmbeddedError(
            CANNOT_INSTALL,
            f"{program} is not installed",
            where="PATH",
            why=why,
            fix=f"on Debian: apt-get install -y {package} (both: apt-get install -y default-jre-headless maven)",
        )
    return Path(found)
