"""A short look at our own half beside the limit of the machine: has anything become slower?"""
