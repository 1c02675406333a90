"""Controllers of KEDA's kinds: ScaledJob, ScaledObject and both kinds of TriggerAuthentication.

Only `workers.controllers.registry` and the admission webhook import them; they import values only.
"""
