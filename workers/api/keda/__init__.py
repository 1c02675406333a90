"""Typed models of KEDA's kinds: ScaledJob, ScaledObject and both kinds of TriggerAuthentication.

Controllers, scalers, the webhook and the CRD generator import them.
"""
