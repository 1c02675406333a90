"""KEDA's protocol of external scalers: its messages, its client and its two triggers.

The registry loads the triggers by entry point; wake-ups and the external server import the messages.
"""
