"""The gateway on real sockets and a real broker."""
