"""Controllers of KEDA's kinds: ScaledJob, ScaledObject and both kinds of TriggerAuthentication.

`workers.controllers.registry` collects them. They are pure, as all controllers are: they import values only.
"""
