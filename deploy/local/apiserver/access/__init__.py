"""Access: who sends a request, by its token, and whether roles allow what it asks.

The application, the handlers and `http` import it; it reads the store and knows nothing of HTTP.
"""
