"""`spark-submit … tidelog_pipeline.py run orders.toml` is `tidelog pipeline run orders.toml`."""

import sys

from tidelog.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", *sys.argv[1:]])
