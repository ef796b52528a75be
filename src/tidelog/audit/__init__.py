"""A real cluster judged from outside: by its answers, its records and its files."""
