"""Pipelines as files: judged with lines and nearest names, and made into what is submitted."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from support.commands import Ran
from tidelog.cli.main import cli
from tidelog.cli.pipeline.definition import KINDS, keys_of, read_definition
from tidelog.cli.pipeline.submissions import script

ROOT = Path(__file__).parents[2]
ORDERS = """\
# What the shop sells
kind = "archive"
topics = ["orders", "payments"]
to = "/shared/lake"
state-dir = "/shared/pipelines"
partition-by = "topic,date"
max-records = 1000
once = false
registry = "http://me:${SECRET_WORD}@registry:8081"
value-format = "avro"
subject = ["orders-value", "payments-value"]

[conf]
"spark.driver.memory" = "2g"
"spark.ui.enabled" = true
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "orders.toml"
    path.write_text(ORDERS)
    return path


def pipeline(*arguments, **environment):
    result = CliRunner(env=environment).invoke(cli, ["pipeline", *map(str, arguments)])
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_a_file_is_the_words_of_a_command(file):
    words = read_definition(file).words({"SECRET_WORD": "psst"}.get)
    assert words == [
        "--to=/shared/lake",
        "--state-dir=/shared/pipelines",
        "--partition-by=topic,date",
        "--max-records=1000",
        "--registry=http://me:psst@registry:8081",
        "--value-format=avro",
        "--subject=orders-value",
        "--subject=payments-value",
        "--conf=spark.driver.memory=2g",
        "--conf=spark.ui.enabled=true",
        "--",
        "orders",
        "payments",
    ]


def test_a_file_that_is_right_is_said_to_be(file):
    ran = pipeline("run", file, "--check", SECRET_WORD="psst")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == f"{file}: archive, nothing is wrong with it\n"


@pytest.mark.parametrize(
    ("before", "after", "line", "text"),
    [
        ("partition-by =", "partiton-by =", 6, 'did you mean "partition-by"?'),
        ("[conf]", "[cnof]", 13, 'no key "cnof"'),
        ('kind = "archive"', 'kind = "archiv"', 2, 'did you mean "archive"?'),
        ("max-records = 1000", 'max-records = "many"', 7, "max-records: 'many'"),
        ("max-records = 1000", "max-records = [1, 2]", 7, "max-records has one value"),
        ("max-records = 1000", "max-records = true", 7, "max-records is text or a number"),
        ("once = false", 'once = "no"', 8, "once is true or false"),
        ("max-records = 1000", 'format = "orc"', 7, "format: 'orc' is not one of"),
        ("SECRET_WORD", "NO_SUCH", 9, "registry needs ${NO_SUCH}, which is not set"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(file, before, after, line, text):
    assert before in ORDERS
    file.write_text(ORDERS.replace(before, after))
    ran = pipeline("run", file, "--check", SECRET_WORD="psst")
    assert ran.code == 2
    assert f"{file}:{line}: " in ran.stderr
    assert text in ran.stderr
    assert "psst" not in ran.stderr


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('to = "x"', "has no kind"),
        ('kind = "archive', "is no TOML"),
        ('kind = "archive"\nto = "x"', "topics are named, or meant by --pattern"),
        ('kind = "archive"\nto = "x"\npattern = "a("', "wrong value for --pattern"),
        ('kind = "archive"\ntopics = "a"', "--to is missing"),
        ('kind = "archive"\ntopics = "a"\nto = "x"\npartition-by = "hue"', "by hue"),
        ('kind = "archive"\ntopics = "a"\nto = "x"\nname = "../up"', "it names a directory"),
        ('kind = "archive"\ntopics = "a"\nto = "x"\nmaster = "mesos"', "is no Spark cluster"),
        ('kind = "mirror"\ntopics = "a"\nfrom = "a:1"\nto = "b:1"\nprefix = "/"', "--prefix"),
        ('kind = "mirror"\ntopics = "a"\nfrom = "a:1"\nto = "b:1"\ngroups = "("', "--groups"),
        ('kind = "health"\nonce = true\nevery = "60s"', "--once and --every contradict"),
        (
            'kind = "archive"\nto = "x"\npattern = ".*"\nvalue-format = "json"\n'
            'schema = "id INT"\non-bad-record = "dead-letter"\ndead-letter-topic = "bad"',
            "--pattern needs a --dead-letter-topic that it does not match",
        ),
    ],
)
def test_what_a_command_would_refuse_is_refused_of_a_file(tmp_path, content, text):
    path = tmp_path / "wrong.toml"
    path.write_text(content)
    ran = pipeline("run", path, "--check")
    assert ran.code == 2
    assert text in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 3, ran.stderr


def test_a_file_that_is_not_there_is_told(tmp_path):
    assert "cannot be read" in pipeline("run", tmp_path / "none.toml").stderr


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_command_is_a_key(tmp_path, kind):
    path = tmp_path / "some.toml"
    path.write_text(f'kind = "{kind}"')
    keys = keys_of(read_definition(path).command)
    assert {"name", "state-dir", "master", "conf"} <= set(keys)
    assert "help" not in keys


def test_options_behind_the_file_win_over_it(file):
    ran = pipeline("run", file, "--max-records", "0", "--check", SECRET_WORD="psst")
    assert "max-records" in ran.stderr


def submitted(text):
    """The comments, and the words of the command."""
    lines = text.splitlines()
    notes = [line for line in lines if line.startswith("#")]
    return notes, shlex.split("\n".join(lines[len(notes) :]).replace("\\\n", " "))


def test_standalone_is_told_to_run_the_file_where_it_is(file):
    ran = pipeline("deploy", file, "--on", "standalone", "--master", "spark://one:7077,two:7077")
    assert ran.code == 0, ran.stderr
    notes, words = submitted(ran.stdout)
    assert any("every machine mounts" in each for each in notes)
    assert words[:5] == [
        *("spark-submit", "--master", "spark://one:7077,two:7077", "--deploy-mode", "client")
    ]
    assert "spark.driver.memory=2g" in words
    assert words[-3:] == [str(script()), "run", str(file)]


def test_an_environment_is_taken_along(file):
    options = ("--master", "spark://one:7077", "--environment", "/shared/env.tar.gz")
    notes, words = submitted(pipeline("deploy", file, "--on", "standalone", *options).stdout)
    assert "/shared/env.tar.gz#environment" in words
    assert "spark.pyspark.python=./environment/bin/python" in words
    assert any("venv-pack -o /shared/env.tar.gz" in each for each in notes)


def test_yarn_takes_the_file_along_and_names_variables_only(file):
    notes, words = submitted(pipeline("deploy", file, "--on", "yarn", SECRET_WORD="psst").stdout)
    assert words[words.index("--files") + 1] == str(file)
    assert words[-3:] == [str(script()), "run", "orders.toml"]
    assert "spark.yarn.appMasterEnv.SECRET_WORD=$SECRET_WORD" in words
    assert "psst" not in "".join([*notes, *words])


def test_kubernetes_gets_the_file_as_it_is_and_an_application_that_runs_it(file):
    ran = pipeline("deploy", file, "--on", "kubernetes", "--image", "shop:1", "--executors", "3")
    config, application = yaml.safe_load_all(ran.stdout)
    assert config["data"]["pipeline.toml"].strip() == ORDERS.strip()
    spec = application["spec"]
    assert (application["kind"], spec["image"]) == ("SparkApplication", "shop:1")
    assert spec["arguments"] == ["run", "/etc/tidelog/pipeline.toml"]
    assert spec["driver"]["configMaps"] == [{"name": "orders", "path": "/etc/tidelog"}]
    assert spec["driver"]["env"][0]["valueFrom"]["secretKeyRef"] == {
        "name": "orders",
        "key": "SECRET_WORD",
    }
    assert spec["executor"]["instances"] == 3
    assert spec["sparkConf"]["spark.driver.memory"] == "2g"
    assert spec["restartPolicy"]["type"] == "Always"
    for side in ("driver", "executor"):
        assert spec[side]["volumeMounts"][0]["mountPath"] == "/shared"


@pytest.mark.parametrize("platform", ["yarn", "kubernetes"])
def test_a_relative_path_is_refused_where_nobody_knows_the_directory(file, platform):
    file.write_text(ORDERS.replace("/shared/lake", "lake"))
    ran = pipeline("deploy", file, "--on", platform)
    assert ran.code == 2
    assert f"{file}:4: to is lake" in ran.stderr


def test_standalone_needs_to_know_where_the_cluster_is(file):
    ran = pipeline("deploy", file, "--on", "standalone")
    assert ran.code == 2
    assert "nobody says where the cluster is" in ran.stderr
    assert "the master is local[*]" in ran.stderr


def test_the_file_of_the_documents_and_that_of_the_help_are_right(tmp_path):
    path = tmp_path / "documented.toml"
    text = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
    path.write_text(text.partition("```toml\n")[2].partition("```")[0])
    ran = pipeline("run", path, "--check", REGISTRY_PASSWORD="psst")
    assert (ran.code, ran.stderr) == (0, "")
    told = pipeline("run", "--help").stdout.partition("orders.toml:\n")[2].partition("\n\n")[0]
    path.write_text("\n".join(line.strip() for line in told.splitlines()))
    assert pipeline("run", path, "--check").code == 0


def test_errors_are_json_where_that_is_asked_for(file):
    file.write_text('kind = "archive"\nformt = "delta"')
    ran = pipeline("run", file, "-o", "json")
    assert json.loads(ran.stderr)["why"] == 'did you mean "format"?'
