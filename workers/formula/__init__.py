"""The formula language of `scalingModifiers` and of JobFlow conditions: a parser and an evaluator.

The controllers of ScaledObject and `workers.flows` import it.
"""
