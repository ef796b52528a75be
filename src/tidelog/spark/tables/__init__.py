"""Tables in a directory, without a jar: tasks write Parquet files, the driver names them.

A file that no commit names is not in the table, so attempts that failed leave nothing behind that
a reader could see. Which batch of which query was committed last is written in the same step as
its files, so a batch that comes again is known and left out.
"""
