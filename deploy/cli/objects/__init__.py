"""The commands on objects: `apply`, `get`, `describe`, `explain`, `logs`, `delete`, `push`.

Other groups of commands share its rules; `describe` joins the sections of `schedules` and `volcano`.
"""
