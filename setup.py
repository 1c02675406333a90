"""The packages that are built: `penstock`, with the inside, which a checkout keeps beside it, as its subpackages.

A wheel so has one name of its own at the top, and nothing in it meets other people's `workers` or `scheduler`.
"""

from setuptools import find_namespace_packages, find_packages, setup

INSIDE = ("scheduler", "workers", "scalers", "deploy")
# Folders without modules, of Lua and YAML, count as packages too.
_inside = find_namespace_packages(include=[f"{name}{rest}" for name in INSIDE for rest in ("", ".*")])

setup(
    packages=[
        *find_packages(include=["penstock", "penstock.*"]),
        *(f"penstock.{name}" for name in _inside if "__pycache__" not in name),
    ],
    package_dir={"penstock": "penstock", **{f"penstock.{name}": name for name in INSIDE}},
)
