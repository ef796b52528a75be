"""Was anything lost, written twice, moved or changed? Judged from outside, by what clients were
told, what can be read, and the bytes on the disks. Nothing here knows how replication works."""
