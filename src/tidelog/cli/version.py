"""`tidelog version`: what runs here."""

import platform

import click

from tidelog import __version__
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json


@click.command(name="version")
@output_option
@shared_options
def command(output: str) -> None:
    """Tell this version, its Python, and whether its kernels are compiled.

    \b
    Examples:
      tidelog version
      tidelog version -o json
    """
    from tidelog.wire import kernel

    why = kernel.why_python()
    if output == "json":
        print_json(
            {
                "version": __version__,
                "python": platform.python_version(),
                "kernels": kernel.implementation(),
                "why_not_compiled": why,
            }
        )
        return
    click.echo(f"tidelog  {__version__}")
    click.echo(f"python   {platform.python_version()}")
    click.echo(f"kernels  {kernel.implementation()}" + (f": {why}" if why else ""))
