"""What is submitted to each kind of Spark cluster, as text for people to read and use."""

import json
import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from tidelog import __version__
from tidelog.cli.pipeline.definition import Definition

STANDALONE, YARN, KUBERNETES = "standalone", "yarn", "kubernetes"
PLATFORMS = (STANDALONE, YARN, KUBERNETES)
SCRIPT: Final = "tidelog.cli.pipeline.submitted.tidelog_pipeline"
IN_IMAGE: Final = "/opt/tidelog/tidelog_pipeline.py"
ENVIRONMENT: Final = "environment"
"""The directory that an archive is unpacked to, beside each process."""
SHARED: Final = "/shared"
SPARK_VERSION: Final = "4.3.0"


def script() -> Path:
    """Of the installed package."""
    found = find_spec(SCRIPT)
    assert found is not None, SCRIPT
    assert found.origin is not None, found
    return Path(found.origin)


class Submission(NamedTuple):
    definition: Definition
    name: str
    spark_url: str
    conf: Mapping[str, str]
    environment: str | None
    """An archive with Python and all packages; None: they are installed on every machine."""
    image: str
    executors: int
    python: str
    """Of this machine."""

    def text(self, platform: str) -> str:
        if platform == KUBERNETES:
            return kubernetes(self)
        return standalone(self) if platform == STANDALONE else yarn(self)

    @property
    def file(self) -> Path:
        return self.definition.path.absolute()

    @property
    def is_endless(self) -> bool:
        return not self.definition.values.get("once", False)


def standalone(given: Submission) -> str:
    """The driver stays where it is submitted, because its checkpoints and its lock are there."""
    if given.environment is None:
        python = given.python
        notes = [f"# On every machine: {python} with tidelog[spark]=={__version__} installed."]
    else:
        python = f"./{ENVIRONMENT}/bin/python"
        notes = _packing(given.environment)
    notes.append("# Tables and checkpoints lie on a file system that every machine mounts.")
    options = [
        ("--master", given.spark_url),
        ("--deploy-mode", "client"),
        ("--name", given.name),
        *_archives(given),
        ("--conf", f"spark.pyspark.python={python}"),
        ("--conf", f"spark.pyspark.driver.python={given.python}"),
        *_settings(given),
    ]
    return _command(notes, options, [str(script()), "run", str(given.file)])


def yarn(given: Submission) -> str:
    """The driver runs in the application master; a file is taken along and lies beside it."""
    archive = given.environment or "environment.tar.gz"
    python = f"./{ENVIRONMENT}/bin/python"
    notes = [
        *_packing(archive),
        "# Tables and checkpoints lie on a file system that every machine mounts.",
    ]
    options = [
        ("--master", "yarn"),
        ("--deploy-mode", "cluster"),
        ("--name", given.name),
        ("--num-executors", str(given.executors)),
        *_archives(given._replace(environment=archive)),
        ("--files", str(given.file)),
        ("--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}"),
        ("--conf", f"spark.executorEnv.PYSPARK_PYTHON={python}"),
        *_settings(given),
    ]
    shown = [f'  --conf spark.yarn.appMasterEnv.{name}="${name}"' for name in _variables(given)]
    return _command(notes, options, [str(script()), "run", given.file.name], shown)


def kubernetes(given: Submission) -> str:
    """For Spark's operator: the file as a ConfigMap, and the application that runs it."""
    label = _label(given.name)
    text = "".join(f"    {line}".rstrip() + "\n" for line in given.definition.text.splitlines())
    conf = {"spark.pyspark.python": "python3", **given.conf}
    settings = "".join(f"    {_quoted(key)}: {_quoted(each)}\n" for key, each in conf.items())
    policy = "Always" if given.is_endless else "OnFailure"
    return "".join(
        (
            f"# The image {given.image}, made by a Dockerfile like this:\n",
            f"#   FROM spark:{SPARK_VERSION}-python3\n",
            "#   USER root\n",
            f"#   RUN pip install 'tidelog[spark]=={__version__}' && mkdir /opt/tidelog && \\\n",
            f"#       cp \"$(python3 -c 'import {SCRIPT} as it; print(it.__file__)')\" \\\n",
            f"#          {IN_IMAGE}\n",
            f"# All mount the volume {label} at {SHARED}; tables and checkpoints lie there.\n",
            *(f"# {each} comes from the secret {label}.\n" for each in _variables(given)),
            "apiVersion: v1\nkind: ConfigMap\n",
            f"metadata:\n  name: {label}\n",
            f"data:\n  pipeline.toml: |\n{text}---\n",
            "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\n",
            f"metadata:\n  name: {label}\n",
            "spec:\n  type: Python\n  mode: cluster\n",
            f'  pythonVersion: "3"\n  sparkVersion: {SPARK_VERSION}\n',
            f"  image: {_quoted(given.image)}\n",
            f"  mainApplicationFile: local://{IN_IMAGE}\n",
            '  arguments: ["run", "/etc/tidelog/pipeline.toml"]\n',
            f"  restartPolicy:\n    type: {policy}\n    onFailureRetryInterval: 30\n",
            f"  sparkConf:\n{settings}",
            "  volumes:\n    - name: shared\n      persistentVolumeClaim:\n",
            f"        claimName: {label}\n",
            "  driver:\n    cores: 1\n    memory: 2g\n",
            f"    configMaps:\n      - name: {label}\n        path: /etc/tidelog\n",
            _container_environment(given, label),
            _mount(),
            f"  executor:\n    instances: {given.executors}\n    cores: 1\n    memory: 2g\n",
            _mount(),
        )
    )


def _mount() -> str:
    return f"    volumeMounts:\n      - name: shared\n        mountPath: {SHARED}\n"


def _container_environment(given: Submission, label: str) -> str:
    names = _variables(given)
    if not names:
        return ""
    return "    env:\n" + "".join(
        f"      - name: {each}\n        valueFrom:\n          secretKeyRef:\n"
        f"            name: {label}\n            key: {each}\n"
        for each in names
    )


def _packing(archive: str) -> list[str]:
    return [
        "# Once, in a virtual environment like those of the cluster:",
        f"#   pip install 'tidelog[spark]=={__version__}' venv-pack",
        f"#   venv-pack -o {shlex.quote(archive)}",
    ]


def _archives(given: Submission) -> list[tuple[str, str]]:
    if given.environment is None:
        return []
    return [("--archives", f"{given.environment}#{ENVIRONMENT}")]


def _settings(given: Submission) -> list[tuple[str, str]]:
    return [("--conf", f"{key}={value}") for key, value in given.conf.items()]


def _variables(given: Submission) -> list[str]:
    return given.definition.variables


def _command(
    notes: list[str],
    options: list[tuple[str, str]],
    last: list[str],
    shown: list[str] | None = None,
) -> str:
    lines = ["spark-submit"]
    lines += [f"  {name} {shlex.quote(value)}" for name, value in options]
    lines += shown or []
    lines.append(f"  {shlex.join(last)}")
    return "\n".join(notes) + "\n" + " \\\n".join(lines) + "\n"


def _label(name: str) -> str:
    """A name as Kubernetes takes it."""
    words = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:50].strip("-")
    return words if words and words[0].isalpha() else f"pipeline-{words}".rstrip("-")


def _quoted(text: str) -> str:
    """YAML takes strings as JSON writes them."""
    return json.dumps(text, ensure_ascii=False)
