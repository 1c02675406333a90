"""The sources of work, one module per family of servers. Every other part of scalers may import them; they import
neither triggers, wake-ups nor polling.
"""
