"""The web console: an HTTP application, a hub of events, and static pages (docs/console.md)."""
