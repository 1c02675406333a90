"""The language of JobFlows: nodes, expressions and their drawing.

The admission rules, the JobFlow controller and the command line import it.
"""
