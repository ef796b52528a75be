"""`tidelog sim`: simulated clusters, their failures and their mutants."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "run": Lazy("tidelog.cli.sim.run", "Run many seeds, or tell the story of one."),
    "replay": Lazy("tidelog.cli.sim.replay", "Run a plan from a file again."),
    "shrink": Lazy("tidelog.cli.sim.shrink", "Find the smallest plan that fails like a seed."),
    "mutants": Lazy("tidelog.cli.sim.mutants", "Prove that the rules notice broken code."),
    "crash-states": Lazy(
        "tidelog.cli.sim.crash_states", "Recover every state a crash can leave on disk."
    ),
    "campaign": Lazy("tidelog.cli.sim.campaign", "Collect seeds over many runs, in one table."),
    "coverage": Lazy(
        "tidelog.cli.sim.coverage", "Measure how much of production the simulator runs."
    ),
    "bench": Lazy("tidelog.cli.sim.bench", "Measure simulated steps per second."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Run, replay and shrink simulated clusters.

    \b
    Examples:
      tidelog sim run --seeds 2000
      tidelog sim run --seed 4711
      tidelog sim shrink 4711 --out bug.json
      tidelog sim replay bug.json
    """
