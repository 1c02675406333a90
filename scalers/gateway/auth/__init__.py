"""Authentication of pushes: proofs of who sends a request, checked against the `auth` of the target's push settings.

The gateway's application and process may import it; it knows neither Starlette nor uvicorn.
"""
