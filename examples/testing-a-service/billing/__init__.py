"""Orders come in, invoices go out: one for each, whatever happens."""
