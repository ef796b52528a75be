"""The pytest plugin in runs that tests start."""

from importlib.metadata import entry_points


def plugin_options() -> list[str]:
    """Whoever has installed this release has the plugin already."""
    known = any(each.name == "tidelog" for each in entry_points(group="pytest11"))
    return [] if known else ["-p", "tidelog.testing.plugin"]
