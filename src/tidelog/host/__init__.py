"""The ports through which a node touches the world, and their real versions."""
