"""What `spark-submit` is given: a directory of its own, because Python looks for modules in it."""
