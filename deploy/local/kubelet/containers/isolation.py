"""How a further process gets into a running container."""


def entering(pid: int) -> tuple[str, ...]:
    """Returns the words before a command that is to run in the container of this process; none without isolation."""
    del pid
    return ()
